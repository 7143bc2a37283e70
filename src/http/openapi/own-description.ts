import { ASK_AGAIN, ETAG, PAGE_POLICY, REQUEST_HEADERS } from './headers.js';
import type { AnswerDescription, RouteDescription } from './route-description.js';

/** The routes of the description itself: its two documents, and the page that shows them. */

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;
const notModified: AnswerDescription = { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, ASK_AGAIN] };

export const openApi: RouteDescription = {
  operationId: 'getDescription',
  tag: 'Description',
  summary: 'The description for clients, as OpenAPI 3.1',
  text: 'The same for every setting. `getWholeDescription` has more. It is made of the routes themselves when the service starts.',
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
    304: notModified,
  },
  errors: ['preconditionFailed'],
  asksNoStore: true,
};

export const wholeOpenApi: RouteDescription = {
  ...openApi,
  operationId: 'getWholeDescription',
  summary: 'The whole description, as OpenAPI 3.1',
  text: 'With the HEAD requests, and with what only the pages of the service ask for: the console and `/docs`.',
};

const pageHeaders = [ETAG, ASK_AGAIN, PAGE_POLICY];
const pageNotModified: AnswerDescription = { ...notModified, headers: pageHeaders };

export const referencePage: RouteDescription = {
  operationId: 'getReferencePage',
  tag: 'Description',
  isOfPage: true,
  summary: 'The page that shows this description',
  text: 'It asks this service only. What is tried out there is carried out.',
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: { text: 'The page.', headers: pageHeaders, content: { mediaType: 'text/html', schema: { type: 'string' } } },
    304: pageNotModified,
  },
  errors: ['preconditionFailed'],
  asksNoStore: true,
};

export const problems: RouteDescription = {
  ...referencePage,
  operationId: 'getProblems',
  summary: 'The page that explains every error',
  text: 'The `type` of an error as RFC 9457 refers to it.',
};

export function referencePageFile(files: readonly string[]): RouteDescription {
  const text = { type: 'string' };
  return {
    operationId: 'getReferencePageFile',
    tag: 'Description',
    isOfPage: true,
    summary: 'What the page is made of',
    text: 'Its scripts and its style.',
    parameters: { file: { text: 'The name of the file.', schema: { type: 'string', enum: files } } },
    headers: [ifNoneMatch, ifMatch],
    answers: {
      200: {
        text: 'The file.',
        headers: pageHeaders,
        content: { mediaType: 'text/javascript', schema: text, more: ['text/css'] },
      },
      304: pageNotModified,
    },
    errors: ['unknownRoute', 'preconditionFailed'],
    asksNoStore: true,
  };
}
