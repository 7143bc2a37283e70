import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { publicErrors } from '../errors/catalogue.js';
import { refuseBare } from './bare-answers.js';

/**
 * Node emits a request with `Expect` as an event of its own, and here it becomes a request as every other one, so that what bounds requests
 * bounds it too. `refuseExpectation` judges it.
 */
export function takeExpectations(server: Server): void {
  const take = (request: IncomingMessage, response: ServerResponse) => server.emit('request', request, response);
  server.on('checkContinue', take);
  server.on('checkExpectation', take);
}

/**
 * `Expect` (RFC 9110 10.1.1). True if the request was refused, because it expects something unknown. The 100 is sent when the body begins
 * to be read and not before. So a request that is refused by its head (a wrong path or method, no key, a length beyond the limit) is never
 * asked for its body.
 */
export function refuseExpectation(request: IncomingMessage, response: ServerResponse): boolean {
  const { headers, httpVersion } = request;
  if (headers.expect === undefined || httpVersion !== '1.1') return false;
  // Node takes any value that contains the word.
  if (headers.expect.trim().toLowerCase() === '100-continue') {
    continueWhenRead(request, response);
    return false;
  }
  // There is no request yet that could be routed.
  refuseBare(request, response, publicErrors.expectationFailed());
  return true;
}

function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  // Without a 100 it is unknown whether the client sends the body all the same: Node then ends the connection.
  request.once('resume', () => {
    if (!response.headersSent) response.writeContinue();
  });
}
