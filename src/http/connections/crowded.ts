import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { publicErrors } from '../errors/public-errors.js';
import { LIVENESS_PATH, READINESS_PATH } from '../operations/probe-routes.js';
import { refuseBare } from './bare-answers.js';

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
