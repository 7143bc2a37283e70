import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export const REQUEST_ID_HEADER = 'X-Request-Id';

/** Short, and nothing that could break a log line or a header. */
const SANE = /^[A-Za-z0-9._~:+/=-]{1,128}$/;

/** The client's own id when it is sane, so that both sides' logs can be joined; else a new one (decisions G1). */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const own = request.headers['x-request-id'];
  return typeof own === 'string' && SANE.test(own) ? own : randomUUID();
}
