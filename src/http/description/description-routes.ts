import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { quoted } from '../entity-tags.js';
import { evaluateRead, sendNotModified } from '../preconditions.js';
import { publicErrors } from '../public-errors.js';
import { openApi, referencePage, referencePageFile } from './service.js';

/** What is made once and served from memory. */
interface Page {
  readonly contentType: string;
  readonly bytes: Buffer;
  /** Without quotes. */
  readonly tag: string;
}

/** Beside this file in the build. The first two are those of Swagger UI, which the build copies there. */
const FOLDER = new URL('reference-page/', import.meta.url);
const FILES = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
} as const;
const FilePath = Type.Object({ file: Type.String() });

/**
 * Scripts and styles of this service only, none of them in the page itself, and requests to this service only. Swagger UI draws with
 * images in its style sheet (`data:`).
 */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** The next version of the service may have another one under the same name. */
const ASK_AGAIN = 'no-cache';

/** Decisions A4: open, because they tell nothing of what is kept. */
export function registerDescriptionRoutes(server: FastifyInstance): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();
  let description: Page | undefined;
  const pages = new Map<string, Page>();

  app.get('/openapi.json', { config: { scopes: 'open', description: openApi } }, (request, reply) => {
    description ??= pageOf(Buffer.from(JSON.stringify(server.openApiDocument())), 'application/json; charset=utf-8');
    sendPage(request, reply, description);
  });

  app.get('/docs', { config: { scopes: 'open', description: referencePage } }, (request, reply) => {
    sendPage(request, reply, read('index.html', 'text/html; charset=utf-8'), PAGE_POLICY);
  });

  app.get(
    '/docs/:file',
    {
      schema: { params: FilePath },
      config: { scopes: 'open', description: referencePageFile(Object.keys(FILES)) },
    },
    (request, reply) => {
      const { file } = request.params;
      if (!isFile(file)) throw publicErrors.unknownRoute();
      sendPage(request, reply, read(file, FILES[file]), PAGE_POLICY);
    },
  );

  /** When it is asked for, and not at the start: few processes are ever asked. */
  function read(name: string, contentType: string): Page {
    const page = pages.get(name) ?? pageOf(readFileSync(new URL(name, FOLDER)), contentType);
    pages.set(name, page);
    return page;
  }
}

function isFile(name: string): name is keyof typeof FILES {
  return Object.hasOwn(FILES, name);
}

function pageOf(bytes: Buffer, contentType: string): Page {
  return { bytes, contentType, tag: createHash('md5').update(bytes).digest('hex') };
}

function sendPage(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { bytes, contentType, tag }: Page,
  policy?: string,
): void {
  const verdict = evaluateRead(headers, tag);
  if (verdict === 'failed') throw publicErrors.preconditionFailed('page');
  reply.header('etag', quoted(tag)).header('cache-control', ASK_AGAIN);
  if (policy !== undefined) reply.header('content-security-policy', policy);
  if (verdict === 'not modified') sendNotModified(reply);
  else reply.header('content-type', contentType).send(bytes);
}
