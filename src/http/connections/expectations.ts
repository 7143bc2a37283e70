import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { publicErrors } from '../errors/public-errors.js';
import { refuseBare } from './bare-answers.js';

/**
 * `Expect` (RFC 9110 10.1.1). The 100 is sent when the body begins to be read and not before. So a request that is refused by its head (a
 * wrong path or method, no key, a length beyond the limit) is never asked for its body.
 */
export function answerExpectations(server: Server): void {
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    // Node takes any value that contains the word.
    if (request.headers.expect?.trim().toLowerCase() !== '100-continue') {
      refuse(request, response);
      return;
    }
    continueWhenRead(request, response);
    server.emit('request', request, response);
  });
  server.on('checkExpectation', refuse);
}

function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  // Without a 100 it is unknown whether the client sends the body all the same: Node then ends the connection.
  request.once('resume', () => {
    if (!response.headersSent) response.writeContinue();
  });
}

/** There is no request yet that could be routed. */
function refuse(request: IncomingMessage, response: ServerResponse): void {
  refuseBare(request, response, publicErrors.expectationFailed());
}
