import { ASK_AGAIN, always, ETAG, PAGE_POLICY, REQUEST_HEADERS, sometimes } from '../openapi/headers.js';
import type { AnswerDescription, RouteDescription } from '../openapi/route-description.js';

/** The operator's console: its page and its files. */

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;
const text = { type: 'string' };

const KEPT_FOR_EVER = {
  ...always('Cache-Control', 'Every cache may keep the file for a year: its name changes with it.', {
    const: 'public, max-age=31536000, immutable',
  }),
  component: 'Cache-Control-immutable',
};
const VARY = always('Vary', 'The answer depends on this header of the request.', {
  const: 'Accept-Encoding',
});
const CONTENT_ENCODING = sometimes(
  always('Content-Encoding', 'Compressed, where `Accept-Encoding` takes it.', { const: 'gzip' }),
);
const REDIRECTED = {
  ...always('Location', 'Where the page is.', { const: '../console' }),
  component: 'Location-console',
};

const pageHeaders = [ETAG, ASK_AGAIN, PAGE_POLICY, VARY, CONTENT_ENCODING];
const fileHeaders = [ETAG, KEPT_FOR_EVER, PAGE_POLICY, VARY, CONTENT_ENCODING];
const notModified: AnswerDescription = { text: 'It has a tag of `If-None-Match`.' };

export const consolePage: RouteDescription = {
  operationId: 'getConsole',
  tag: 'Console',
  isOfPage: true,
  summary: "The operator's console",
  text: 'A page for people. Its files are open; it requests its data with the credential of its user.',
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: { text: 'The page.', headers: pageHeaders, content: { mediaType: 'text/html', schema: text } },
    304: { ...notModified, headers: pageHeaders },
  },
  errors: ['preconditionFailed', 'noConsole'],
  asksNoStore: true,
};

export const consoleFile: RouteDescription = {
  operationId: 'getConsoleFile',
  tag: 'Console',
  isOfPage: true,
  summary: 'What the console is made of',
  text: 'Its scripts, styles and images. Each name changes with what is in the file.',
  parameters: { file: { text: 'The name of the file, as the page has it.', schema: text } },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: {
      text: 'The file.',
      headers: fileHeaders,
      content: { mediaType: 'text/javascript', schema: text, more: ['text/css', 'image/svg+xml'] },
    },
    304: { ...notModified, headers: fileHeaders },
    308: { text: 'The page is at the path without the slash at its end.', headers: [ASK_AGAIN, REDIRECTED] },
  },
  errors: ['unknownRoute', 'preconditionFailed'],
  asksNoStore: true,
};
