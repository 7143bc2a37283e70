import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';
import {
  ASK_AGAIN as ASK_AGAIN_HEADER,
  always,
  ETAG,
  PAGE_POLICY,
  REQUEST_HEADERS,
  sometimes,
} from '../openapi/headers.js';
import type { AnswerDescription, RouteDescription } from '../openapi/route-description.js';
import { ASK_AGAIN, type Page, pageOf, sendPage } from '../requests/pages.js';
import { type ParametersProvider, pathSchema } from '../requests/parameter-schemas.js';

/** Made by console/build.mjs: each file compressed, named `NAME.gz`. */
const FOLDER = new URL('../../console/', import.meta.url);
const COMPRESSED = '.gz';
const PAGE = 'index.html';
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Scripts, styles, images and requests of this service only, and none of them in the text of the page. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** The name of a file changes with what is in it. */
const KEPT_FOR_EVER = 'public, max-age=31536000, immutable';
const FilePath = pathSchema('file');

interface ConsoleFile {
  readonly compressed: Page;
  readonly plain: Page;
}

/** Rule A4: open, because the files hold no data: the page requests its data with the credential of its user. */
export function consolePages(server: FastifyInstance): void {
  const app = server.withTypeProvider<ParametersProvider>();
  let files: ReadonlyMap<string, ConsoleFile> | undefined;

  app.get('/console', { config: { scopes: 'open', page: true, description: consolePage } }, (request, reply) => {
    const page = opened().get(PAGE);
    if (!page) throw publicErrors.noConsole();
    sendPage(request, reply, chosen(request, page));
  });

  app.get(
    '/console/:file',
    { schema: { params: FilePath }, config: { scopes: 'open', page: true, description: consoleFile } },
    (request, reply) => {
      const { file: name } = request.params;
      // Relative, so that it also leads there behind a proxy that adds a prefix. The page's own references need the path without it.
      if (name === '') return reply.header('cache-control', ASK_AGAIN).redirect('../console', 308);
      const file = name === PAGE ? undefined : opened().get(name);
      if (!file) throw publicErrors.unknownRoute();
      sendPage(request, reply, chosen(request, file));
    },
  );

  /** Reads all files at the first request, because the page needs most of them; not at the start, because few processes get one. */
  function opened(): ReadonlyMap<string, ConsoleFile> {
    files ??= readFiles();
    return files;
  }
}

/** By their names without `.gz`. None: the build has no console. */
function readFiles(): ReadonlyMap<string, ConsoleFile> {
  const files = new Map<string, ConsoleFile>();
  for (const stored of namesIn(FOLDER)) {
    if (!stored.endsWith(COMPRESSED)) continue;
    const name = stored.slice(0, -COMPRESSED.length);
    const contentType = CONTENT_TYPES[extname(name)] ?? 'application/octet-stream';
    const bytes = readFileSync(new URL(stored, FOLDER));
    const headers = {
      'content-security-policy': POLICY,
      vary: 'Accept-Encoding',
      'cache-control': name === PAGE ? ASK_AGAIN : KEPT_FOR_EVER,
    };
    files.set(name, {
      compressed: pageOf(bytes, contentType, { ...headers, 'content-encoding': 'gzip' }),
      plain: pageOf(gunzipSync(bytes), contentType, headers),
    });
  }
  return files;
}

function namesIn(folder: URL): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** RFC 9110 12.5.3, as far as browsers use it: `gzip` is listed, and not with the weight 0. */
function chosen({ headers }: FastifyRequest, file: ConsoleFile): Page {
  const accepted = /(?:^|,)\s*gzip\s*(?:;\s*q=([\d.]+)\s*)?(?:,|$)/i.exec(String(headers['accept-encoding'] ?? ''));
  return accepted && Number(accepted[1] ?? 1) > 0 ? file.compressed : file.plain;
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const KEPT_FOR_EVER_HEADER = {
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

const pageHeaders = [ETAG, ASK_AGAIN_HEADER, PAGE_POLICY, VARY, CONTENT_ENCODING];
const fileHeaders = [ETAG, KEPT_FOR_EVER_HEADER, PAGE_POLICY, VARY, CONTENT_ENCODING];
const notModified: AnswerDescription = { text: 'It has a tag of `If-None-Match`.' };

const consolePage: RouteDescription = {
  operationId: 'getConsole',
  tag: 'Console',
  isOfPage: true,
  summary: "The operator's console",
  text: 'A page for people. Its files are open; it requests its data with the credential of its user.',
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: { text: 'The page.', headers: pageHeaders, content: { mediaType: 'text/html', schema: { type: 'string' } } },
    304: { ...notModified, headers: pageHeaders },
  },
  errors: ['preconditionFailed', 'noConsole'],
  asksNoStore: true,
};

const consoleFile: RouteDescription = {
  operationId: 'getConsoleFile',
  tag: 'Console',
  isOfPage: true,
  summary: 'What the console is made of',
  text: 'Its scripts, styles and images. Each name changes with what is in the file.',
  parameters: { file: { text: 'The name of the file, as the page has it.', schema: { type: 'string' } } },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: {
      text: 'The file.',
      headers: fileHeaders,
      content: { mediaType: 'text/javascript', schema: { type: 'string' }, more: ['text/css', 'image/svg+xml'] },
    },
    304: { ...notModified, headers: fileHeaders },
    308: { text: 'The page is at the path without the slash at its end.', headers: [ASK_AGAIN_HEADER, REDIRECTED] },
  },
  errors: ['unknownRoute', 'preconditionFailed'],
  asksNoStore: true,
};
