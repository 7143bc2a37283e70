import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';
import { quoted } from './entity-tags.js';
import { evaluateRead, sendNotModified } from './preconditions.js';

/** Content that is made once and served from memory: `/openapi.json`, `/docs`, `/console` and their files. */
export interface Page {
  readonly contentType: string;
  readonly bytes: Buffer;
  /** Without quotes. */
  readonly tag: string;
  /** More headers, besides the headers of every page. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Revalidated each time: the next version may serve another page under the same name. */
export const ASK_AGAIN = 'no-cache';

/**
 * TLS keeps a copy of the bytes that it was given and the client did not read: for a whole script, a megabyte and a half for each
 * connection.
 */
const PIECE_BYTES = 32 * 1024;

/** `headers` may have another `cache-control`. */
export function pageOf(bytes: Buffer, contentType: string, headers: Page['headers'] = {}): Page {
  return { bytes, contentType, headers, tag: createHash('md5').update(bytes).digest('hex') };
}

/** Answers GET and HEAD, with 304 if the client has it. */
export function sendPage(
  request: FastifyRequest,
  reply: FastifyReply,
  { bytes, contentType, tag, headers }: Page,
): void {
  const verdict = evaluateRead(request.headers, tag);
  if (verdict === 'failed') throw publicErrors.preconditionFailed('page');
  reply.header('etag', quoted(tag)).header('cache-control', ASK_AGAIN).headers(headers);
  if (verdict === 'not modified') sendNotModified(reply);
  else {
    reply.header('content-type', contentType);
    if (request.method === 'HEAD' || bytes.length <= PIECE_BYTES) reply.send(bytes);
    else reply.header('content-length', bytes.length).send(Readable.from(piecesOf(bytes), PIECEWISE));
  }
}

/** The next piece is given when the client has read the one before. */
const PIECEWISE = { objectMode: false, highWaterMark: 1 };

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}
