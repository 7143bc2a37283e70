import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { errorBody, publicErrors, reasonPhrase } from './public-errors.js';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.js';

/**
 * `Expect` (RFC 9110 10.1.1). The 100 is sent when the body begins to be read and not before: what is refused by the head
 * of the request (a wrong path or method, no key, a length beyond the limit) never asks for the body.
 */
export function answerExpectations(app: FastifyInstance): void {
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    // Node takes any value that contains the word.
    if (request.headers.expect?.trim().toLowerCase() !== '100-continue') {
      refuse(request, response);
      return;
    }
    continueWhenRead(request, response);
    app.server.emit('request', request, response);
  });
  app.server.on('checkExpectation', refuse);
}

function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  // Without a 100 it is unknown whether the client sends the body all the same: Node then ends the connection.
  request.once('resume', () => {
    if (!response.headersSent) response.writeContinue();
  });
}

/** There is no request yet that could be routed. */
function refuse(request: IncomingMessage, response: ServerResponse): void {
  const { status, message } = publicErrors.expectationFailed();
  const text = JSON.stringify(errorBody(status, message));
  response.writeHead(status, reasonPhrase(status), {
    'Content-Length': Buffer.byteLength(text),
    'Content-Type': 'application/json; charset=utf-8',
    'Cache-Control': 'no-store',
    [REQUEST_ID_HEADER]: requestIdOf(request),
    Connection: 'close',
  });
  response.end(text);
}
