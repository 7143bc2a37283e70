import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export const REQUEST_ID_HEADER = 'X-Request-Id';

/** Short, and nothing that could break a log line or a header. */
const SANE = /^[A-Za-z0-9._~:+/=-]{1,128}$/;

/** Unique to this process; a random id for each request would cost it a tenth of its throughput. */
const PROCESS = randomBytes(9).toString('base64url');
let requests = 0;

/** The client's own id when it is sane, so that both sides' logs can be joined; else a new one (rule G1). */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const own = request.headers['x-request-id'];
  return typeof own === 'string' && SANE.test(own) ? own : newRequestId();
}

export function newRequestId(): string {
  requests += 1;
  return `${PROCESS}-${requests.toString(36)}`;
}
