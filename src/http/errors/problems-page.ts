import type { FastifyInstance } from 'fastify';
import { PAGE_HEADERS, REQUEST_HEADERS } from '../openapi/headers.js';
import { POLICY } from '../openapi/reference-page.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { type Page, pageOf, sendPage } from '../requests/pages.js';
import { PROBLEMS } from './catalogue.js';
import { type Problem, reasonPhrase } from './public-error.js';

/** The page that explains every error. Rule A4: open, because it tells nothing of the stored data. */
export function problems(app: FastifyInstance): void {
  let page: Page | undefined;
  app.get('/problems', { config: { scopes: 'open', page: true, description } }, (request, reply) => {
    page ??= pageOf(Buffer.from(problemsPage()), 'text/html; charset=utf-8', POLICY);
    sendPage(request, reply, page);
  });
}

const description: RouteDescription = {
  operationId: 'getProblems',
  tag: 'Description',
  isOfPage: true,
  summary: 'The page that explains every error',
  text: 'The `type` of an error as RFC 9457 refers to it.',
  headers: [REQUEST_HEADERS.ifNoneMatch, REQUEST_HEADERS.ifMatch],
  answers: {
    200: { text: 'The page.', headers: PAGE_HEADERS, content: { mediaType: 'text/html', schema: { type: 'string' } } },
    304: { text: 'It has a tag of `If-None-Match`.', headers: PAGE_HEADERS },
  },
  errors: ['preconditionFailed'],
  asksNoStore: true,
};

/** The page that the types of RFC 9457 refer to (rule P20): every public error, made of the catalogue. It has no style and no script. */
export function problemsPage(): string {
  const entries = Object.values(PROBLEMS).map(entryOf).sort();
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Idempay: errors</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>Errors</h1>
<p>A request with <code>Accept: application/problem+json</code> gets an error as RFC 9457. Its <code>type</code> is <code>/problems#</code> and one of these
names, which never change. Its <code>detail</code> says what happened to this request. An error of a payment has <code>charge</code>, which speaks of the key, or
of all attempts at the reference if one is named or the key is computed from one: <code>made</code>, <code>none</code> (nothing was charged, and nothing will be without another attempt) or <code>unknown</code>.
An error without it is <code>unknown</code>.</p>
<dl>
${entries.join('\n')}
</dl>
</body>
</html>
`;
}

function entryOf({ name, status, title, action }: Problem): string {
  const said = status === 'several' ? 'several statuses' : `${status} ${reasonPhrase(status)}`;
  return `<dt id="${name}"><a href="#${name}"><code>${name}</code></a> (${said})</dt>\n<dd>${title} ${action}</dd>`;
}
