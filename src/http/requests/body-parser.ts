import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { BodyBudget } from '../../limits/byte-budget.js';
import { publicErrors } from '../errors/catalogue.js';
import { ArrivingBody } from './arriving-body.js';
import { noteChunk } from './chunk-turns.js';
import { type JsonBody, type RowsMember, readJsonBody } from './json-body.js';
import { LONG_BODY_BYTES, readInTurn } from './long-body-turns.js';
import { clientOf } from './request-limit-hook.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body that counts for the budget; undefined if no body is read. */
    arrivingBody: ArrivingBody | undefined;
  }
}

type Done = (error: Error | null, body?: unknown) => void;

/** Every body this service takes has a handful of short members (rule P3), unless its route says otherwise. */
export const BODY_LIMIT_BYTES = 16 * 1024;

const PLAIN_JSON = 'application/json';
const JSON_MEDIA_TYPE = /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]+)"?/i;

/**
 * Reads JSON bodies without losing number text or repeated members. Absent bodies (`Content-Type: application/json` sent
 * with nothing) become `undefined`; each route says what that means. The bytes of all bodies are bounded by the budget.
 */
export function installBodyParser(app: FastifyInstance, budget: BodyBudget): void {
  app.decorateRequest('arrivingBody', undefined);
  app.removeAllContentTypeParsers();
  // The exact name besides the pattern: nearly every request has it, and it is found without matching.
  for (const mediaType of [PLAIN_JSON, JSON_MEDIA_TYPE]) {
    app.addContentTypeParser(mediaType, (request: FastifyRequest, payload: Readable, done: Done) => {
      readJson(budget, request, payload, done);
    });
  }
  app.addContentTypeParser('*', refuseOtherTypes);
  // Not for GET and HEAD, which read no body: the hooks would cost each of them a microsecond.
  app.addHook('onRoute', (route) => {
    if ([route.method].flat().every((method) => method === 'GET' || method === 'HEAD')) return;
    route.preParsing = [...(route.preParsing === undefined ? [] : [route.preParsing].flat()), refuseByHead];
    route.onSend = [...(route.onSend === undefined ? [] : [route.onSend].flat()), release];
  });
}

/** Refuses an unsupported body by its headers, before it is requested (RFC 9110 10.1.1) or read. */
function refuseByHead(
  request: FastifyRequest,
  reply: FastifyReply,
  _payload: unknown,
  done: (error?: Error | null) => void,
): void {
  const { headers } = request;
  const hasBody = Number(headers['content-length']) > 0;
  if (!hasBody || isSupported(headers)) {
    done();
    return;
  }
  reply.raw.shouldKeepAlive = false;
  done(publicErrors.unsupportedMediaType());
}

/** Every request is answered once, also one whose client is gone; Node does not report the end of each. */
function release(request: FastifyRequest, _reply: FastifyReply, payload: unknown, done: Done): void {
  request.arrivingBody?.release();
  // The answer may wait for its client.
  request.body = undefined;
  done(null, payload);
}

function readJson(budget: BodyBudget, request: FastifyRequest, payload: Readable, done: Done): void {
  const { headers, routeOptions } = request;
  const { config, bodyLimit: limitBytes } = routeOptions;
  if (!isSupported(headers)) {
    done(publicErrors.unsupportedMediaType());
    return;
  }
  if (Number(headers['content-length']) > limitBytes) {
    done(publicErrors.bodyTooLarge(limitBytes));
    return;
  }
  const isPayment = config.isPayment === true;
  const body = new ArrivingBody(budget, { isPayment, limitBytes, client: () => clientOf(request) });
  request.arrivingBody = body;
  let isOver = false;
  const end = (error: Error | null, parsed?: JsonBody) => {
    if (isOver) return;
    isOver = true;
    done(error, parsed);
  };
  let isFirst = true;
  payload.on('data', (chunk: Buffer) => {
    if (isFirst) isFirst = false;
    else noteChunk(request);
    // After a refusal the rest is read and discarded.
    const refusal = isOver ? undefined : body.add(chunk);
    if (refusal) end(refusal);
  });
  payload.on('error', () => end(brokenOff()));
  onEnd(payload, () => {
    if (isOver) return;
    const bytes = body.content();
    if (bytes.length <= LONG_BODY_BYTES) parse(bytes, config.bodyRows, end);
    else {
      readInTurn(clientOf(request), () => {
        // Its client may be gone since.
        if (request.raw.socket.destroyed) end(brokenOff());
        else parse(bytes, config.bodyRows, end);
      });
    }
  });
}

/** Calls back when the body is over. An empty one may be over since its credentials were checked. */
function onEnd(payload: Readable, end: () => void): void {
  if (payload.readableEnded) end();
  else payload.on('end', end).resume();
}

function parse(
  bytes: Buffer,
  rows: RowsMember | undefined,
  done: (error: Error | null, body?: JsonBody) => void,
): void {
  let body: JsonBody | undefined;
  try {
    if (bytes.length > 0) body = readJsonBody(bytes, rows);
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, body);
}

/** Refuses a body of another media type. An empty body is no body, with any Content-Type. */
function refuseOtherTypes(_request: FastifyRequest, payload: Readable, done: Done): void {
  let isOver = false;
  const end = (error: Error | null) => {
    if (!isOver) done(error);
    isOver = true;
  };
  payload.on('data', () => end(publicErrors.unsupportedMediaType()));
  payload.on('error', () => end(brokenOff()));
  onEnd(payload, () => end(null));
}

/** Its client is gone: for counts and the log. */
function brokenOff(): Error {
  return publicErrors.invalidRequest('The request ended before its body was complete.');
}

/** The parsed body; the 400 that asks for one when there is none. */
export function requiredBody(request: FastifyRequest): JsonBody {
  const body = request.body as JsonBody | undefined;
  if (body === undefined) throw publicErrors.emptyBody();
  return body;
}

/** JSON in UTF-8, uncompressed. */
function isSupported(headers: IncomingHttpHeaders): boolean {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return false;
  const mediaType = headers['content-type'] ?? '';
  if (mediaType === PLAIN_JSON) return true;
  const charset = CHARSET.exec(mediaType)?.[1]?.toLowerCase() ?? 'utf-8';
  return JSON_MEDIA_TYPE.test(mediaType) && (charset === 'utf-8' || charset === 'utf8');
}
