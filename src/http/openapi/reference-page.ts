import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';
import { type Page, pageOf, sendPage } from '../requests/pages.js';
import { type ParametersProvider, pathSchema } from '../requests/parameter-schemas.js';
import { PAGE_HEADERS, REQUEST_HEADERS } from './headers.js';
import type { RouteDescription } from './route-description.js';

/** Next to this file in the build. The first two belong to Swagger UI; the build copies them there. */
const FOLDER = new URL('reference-page/', import.meta.url);
const FILES = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
} as const;
const FilePath = pathSchema('file');

/**
 * Scripts and styles of this service only, none of them in the page itself, and requests to this service only. Swagger UI draws with
 * images in its style sheet (`data:`).
 */
export const POLICY = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
} as const;

/** The page that shows the description. Rule A4: open, because it tells nothing of the stored data. */
export function referencePage(server: FastifyInstance): void {
  const app = server.withTypeProvider<ParametersProvider>();
  const pages = new Map<string, Page>();

  app.get('/docs', { config: { scopes: 'open', page: true, description: page } }, (request, reply) => {
    sendPage(request, reply, read('index.html', 'text/html; charset=utf-8'));
  });

  app.get(
    '/docs/:file',
    { schema: { params: FilePath }, config: { scopes: 'open', page: true, description: pageFile } },
    (request, reply) => {
      const { file } = request.params;
      if (!isFile(file)) throw publicErrors.unknownRoute();
      sendPage(request, reply, read(file, FILES[file]));
    },
  );

  /** Read at the first request and not at the start, because few processes ever get one. */
  function read(name: string, contentType: string): Page {
    const kept = pages.get(name) ?? pageOf(readFileSync(new URL(name, FOLDER)), contentType, POLICY);
    pages.set(name, kept);
    return kept;
  }
}

function isFile(name: string): name is keyof typeof FILES {
  return Object.hasOwn(FILES, name);
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const page: RouteDescription = {
  operationId: 'getReferencePage',
  tag: 'Description',
  isOfPage: true,
  summary: 'The page that shows this description',
  text: 'It asks this service only. What is tried out there is carried out.',
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: { text: 'The page.', headers: PAGE_HEADERS, content: { mediaType: 'text/html', schema: { type: 'string' } } },
    304: { text: 'It has a tag of `If-None-Match`.', headers: PAGE_HEADERS },
  },
  errors: ['preconditionFailed'],
  asksNoStore: true,
};

const pageFile: RouteDescription = {
  operationId: 'getReferencePageFile',
  tag: 'Description',
  isOfPage: true,
  summary: 'What the page is made of',
  text: 'Its scripts and its style.',
  parameters: { file: { text: 'The name of the file.', schema: { type: 'string', enum: Object.keys(FILES) } } },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: {
      text: 'The file.',
      headers: PAGE_HEADERS,
      content: { mediaType: 'text/javascript', schema: { type: 'string' }, more: ['text/css'] },
    },
    304: { text: 'It has a tag of `If-None-Match`.', headers: PAGE_HEADERS },
  },
  errors: ['unknownRoute', 'preconditionFailed'],
  asksNoStore: true,
};
