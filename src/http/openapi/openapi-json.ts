import type { FastifyInstance } from 'fastify';
import { type Page, pageOf, sendPage } from '../requests/pages.js';
import type { OpenApiDocuments } from './document.js';
import { ASK_AGAIN, ETAG, REQUEST_HEADERS } from './headers.js';
import type { RouteDescription } from './route-description.js';

/** The description itself: its two documents. Rule A4: open, because they tell nothing of the stored data. */
export function openApiJson(app: FastifyInstance): void {
  const pages = new Map<string, Page>();

  app.get('/openapi.json', { config: { scopes: 'open', description: forClients } }, (request, reply) => {
    sendPage(request, reply, pageWith('forClients'));
  });

  app.get('/openapi-all.json', { config: { scopes: 'open', description: whole } }, (request, reply) => {
    sendPage(request, reply, pageWith('whole'));
  });

  /** Made at the first request and not at the start, because few processes ever get one. */
  function pageWith(name: keyof OpenApiDocuments): Page {
    const document = () => Buffer.from(JSON.stringify(app.openApiDocuments()[name]));
    const page = pages.get(name) ?? pageOf(document(), 'application/json; charset=utf-8');
    pages.set(name, page);
    return page;
  }
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const forClients: RouteDescription = {
  operationId: 'getDescription',
  tag: 'Description',
  summary: 'The description for clients, as OpenAPI 3.1',
  text: 'The same for every setting. `getWholeDescription` has more. It is made of the routes themselves.',
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: {
      text: 'The description.',
      headers: [ETAG, ASK_AGAIN],
      content: {
        mediaType: 'application/json',
        schema: {
          type: 'object',
          required: ['openapi', 'info', 'paths'],
          properties: { openapi: { type: 'string' }, info: { type: 'object' }, paths: { type: 'object' } },
        },
      },
    },
    304: { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, ASK_AGAIN] },
  },
  errors: ['preconditionFailed'],
  asksNoStore: true,
};

const whole: RouteDescription = {
  ...forClients,
  operationId: 'getWholeDescription',
  summary: 'The whole description, as OpenAPI 3.1',
  text: 'With the HEAD requests, and with what only the pages of the service ask for: the console and `/docs`.',
};
