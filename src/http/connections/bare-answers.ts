import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { publicErrors } from '../errors/catalogue.js';
import { formOf, type PublicError, reasonPhrase } from '../errors/public-error.js';
import { ALIVE, LIVENESS_PATH, READINESS_PATH } from '../operations/probes.js';
import { REQUEST_ID_HEADER, requestIdOf } from '../requests/request-id.js';
import { keepSmall } from '../requests/unread-bodies.js';
import { fixedHeadersOn } from './fixed-headers.js';

/** Answers while the stores are waited for and migrated: nothing else is served before (rule O1). */
export function answerStarting(request: IncomingMessage, response: ServerResponse): void {
  const [path] = (request.url ?? '').split('?');
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead && path === LIVENESS_PATH) answerBare(request, response, 200, JSON.stringify(ALIVE));
  else refuseBare(request, response, publicErrors.starting());
}

/**
 * Answers on a connection beyond the limit, and ends it. Probes are served: a process that has many clients must not be killed
 * for it. Returns whether the request was a probe.
 */
export function answerCrowded(request: IncomingMessage, response: ServerResponse, answer: RequestListener): boolean {
  const [path] = (request.url ?? '').split('?');
  if (path !== LIVENESS_PATH && path !== READINESS_PATH) {
    refuseBare(request, response, publicErrors.tooManyConnections());
    return false;
  }
  response.shouldKeepAlive = false;
  answer(request, response);
  return true;
}

/** Refuses a request that reaches no route, and closes the connection. */
export function refuseBare(request: IncomingMessage, response: ServerResponse, error: PublicError): void {
  const { contentType, text } = formOf(error, request.headers.accept);
  answerBare(request, response, error.status, text, { ...error.headers, 'Content-Type': contentType });
}

/** Answers a request that reaches no route, and closes the connection, because the rest of the request is not read. */
function answerBare(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.shouldKeepAlive = false;
  // The answer may wait for earlier ones, and Node would keep each chunk of the body until then.
  keepSmall(request);
  response.writeHead(status, reasonPhrase(status), {
    'Content-Type': 'application/json; charset=utf-8',
    ...headers,
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...fixedHeadersOn(request.socket),
    [REQUEST_ID_HEADER]: requestIdOf(request),
  });
  response.end(text);
}
