import { readFileSync } from 'node:fs';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { problemsPage } from '../errors/problems-page.js';
import { publicErrors } from '../errors/public-errors.js';
import { type Page, pageOf, sendPage } from '../requests/pages.js';
import type { OpenApiDocuments } from './document.js';
import { openApi, problems, referencePage, referencePageFile, wholeOpenApi } from './own-description.js';

/** Next to this file in the build. The first two are those of Swagger UI, which the build copies there. */
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
const POLICY = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
} as const;

/** Rule A4: open, because they tell nothing of what is kept. */
export function registerDescriptionRoutes(server: FastifyInstance): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();
  const pages = new Map<string, Page>();

  app.get('/openapi.json', { config: { scopes: 'open', description: openApi } }, (request, reply) => {
    sendPage(request, reply, documentPage('forClients'));
  });

  app.get('/openapi-all.json', { config: { scopes: 'open', description: wholeOpenApi } }, (request, reply) => {
    sendPage(request, reply, documentPage('whole'));
  });

  app.get('/problems', { config: { scopes: 'open', page: true, description: problems } }, (request, reply) => {
    const make = () => pageOf(Buffer.from(problemsPage()), 'text/html; charset=utf-8', POLICY);
    sendPage(request, reply, kept('problems', make));
  });

  app.get('/docs', { config: { scopes: 'open', page: true, description: referencePage } }, (request, reply) => {
    sendPage(request, reply, read('index.html', 'text/html; charset=utf-8'));
  });

  app.get(
    '/docs/:file',
    {
      schema: { params: FilePath },
      config: { scopes: 'open', page: true, description: referencePageFile(Object.keys(FILES)) },
    },
    (request, reply) => {
      const { file } = request.params;
      if (!isFile(file)) throw publicErrors.unknownRoute();
      sendPage(request, reply, read(file, FILES[file]));
    },
  );

  function documentPage(name: keyof OpenApiDocuments): Page {
    return kept(name, () =>
      pageOf(Buffer.from(JSON.stringify(server.openApiDocuments()[name])), 'application/json; charset=utf-8'),
    );
  }

  function read(name: string, contentType: string): Page {
    return kept(name, () => pageOf(readFileSync(new URL(name, FOLDER)), contentType, POLICY));
  }

  /** Made at the first request and not at the start, because few processes ever get one. */
  function kept(name: string, make: () => Page): Page {
    const page = pages.get(name) ?? make();
    pages.set(name, page);
    return page;
  }
}

function isFile(name: string): name is keyof typeof FILES {
  return Object.hasOwn(FILES, name);
}
