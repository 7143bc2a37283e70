import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorBody, type PublicError, reasonPhrase } from '../errors/public-errors.js';
import { REQUEST_ID_HEADER, requestIdOf } from '../requests/request-id.js';
import { fixedHeadersOn } from './fixed-headers.js';

/** Answers a request that reaches no route, and closes the connection, because the rest of the request is not read. */
export function answerBare(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = JSON.stringify(body);
  response.writeHead(status, reasonPhrase(status), {
    ...headers,
    'Content-Length': Buffer.byteLength(text),
    'Content-Type': 'application/json; charset=utf-8',
    'Cache-Control': 'no-store',
    ...fixedHeadersOn(request.socket),
    [REQUEST_ID_HEADER]: requestIdOf(request),
    Connection: 'close',
  });
  response.end(text);
}

export function refuseBare(request: IncomingMessage, response: ServerResponse, error: PublicError): void {
  answerBare(request, response, error.status, errorBody(error.status, error.message), error.headers);
}
