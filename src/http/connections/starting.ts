import type { IncomingMessage, ServerResponse } from 'node:http';
import { publicErrors } from '../errors/public-errors.js';
import { ALIVE, LIVENESS_PATH } from '../operations/probe-routes.js';
import { answerBare, refuseBare } from './bare-answers.js';

/** Answers while the stores are waited for and migrated: nothing else is served before (decisions O1). */
export function answerStarting(request: IncomingMessage, response: ServerResponse): void {
  const [path] = (request.url ?? '').split('?');
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead && path === LIVENESS_PATH) answerBare(request, response, 200, ALIVE);
  else refuseBare(request, response, publicErrors.starting());
}
