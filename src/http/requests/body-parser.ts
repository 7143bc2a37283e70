import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { publicErrors } from '../errors/public-errors.js';
import { type JsonBody, type RowsMember, readJsonBody } from './json-body.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The member of the body whose rows the route reads. */
    bodyRows?: RowsMember;
  }
}

/** Every body this service takes has a handful of short members (decisions P3), unless its route says otherwise. */
export const BODY_LIMIT_BYTES = 16 * 1024;

const PLAIN_JSON = 'application/json';
const JSON_MEDIA_TYPE = /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]+)"?/i;

/**
 * Reads JSON bodies without losing number text or repeated members. Absent bodies (`Content-Type: application/json` sent
 * with nothing) become `undefined`; each route says what that means.
 */
export function installBodyParser(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  // The exact name besides the pattern: nearly every request has it, and it is found without matching.
  for (const mediaType of [PLAIN_JSON, JSON_MEDIA_TYPE]) {
    app.addContentTypeParser(mediaType, { parseAs: 'buffer' }, readJson);
  }
  app.addContentTypeParser('*', { parseAs: 'buffer' }, refuseOtherTypes);
  // Not for GET and HEAD, which read no body: the hook would cost each of them a microsecond.
  app.addHook('onRoute', (route) => {
    if ([route.method].flat().every((method) => method === 'GET' || method === 'HEAD')) return;
    route.preParsing = [...(route.preParsing === undefined ? [] : [route.preParsing].flat()), refuseByHead];
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
  reply.header('connection', 'close');
  done(publicErrors.unsupportedMediaType());
}

function readJson(
  request: FastifyRequest,
  bytes: string | Buffer,
  done: (error: Error | null, body?: unknown) => void,
) {
  try {
    if (!isSupported(request.headers)) throw publicErrors.unsupportedMediaType();
    done(null, bytes.length === 0 ? undefined : readJsonBody(bytes as Buffer, request.routeOptions.config.bodyRows));
  } catch (error) {
    done(error as Error);
  }
}

/** Refuses a body of another media type. An empty body is no body, whatever its Content-Type. */
function refuseOtherTypes(_request: FastifyRequest, bytes: string | Buffer, done: (error: Error | null) => void): void {
  done(bytes.length === 0 ? null : publicErrors.unsupportedMediaType());
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
  const charset = CHARSET.exec(mediaType)?.[1];
  return JSON_MEDIA_TYPE.test(mediaType) && (charset === undefined || charset.toLowerCase() === 'utf-8');
}
