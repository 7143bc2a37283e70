import {
  ConflictError,
  type ErrorDetails,
  type IdempayError,
  InvalidRequestError,
  NotAuthorizedError,
  NotFoundError,
  UnavailableError,
  UnexpectedAnswerError,
} from '../errors.js';
import { adviceFor, isLasting, reasonOf } from './connection-faults.js';
import { messageOf, refusalIn } from './proof.js';
import type { Again } from './repeat.js';
import type { Answer, Lost } from './transport.js';

const INVALID = new Set([400, 413, 414, 415, 417, 421, 431]);

export function detailsOf(answer: Pick<Answer, 'status' | 'headers' | 'text'>): ErrorDetails {
  const { status, headers } = answer;
  const { type, charge, refund } = refusalIn(answer) ?? {};
  return { status, requestId: headers.get('x-request-id') ?? undefined, type, charge, refund };
}

/**
 * The details of an error whose cause is another one: they name the same answer. `charge` and `refund` are left out, because an attempt
 * that was sent before may still arrive, and move money. `otherwise`: the cause if there is no such error.
 */
export function causedBy(error: IdempayError | undefined, otherwise?: unknown): ErrorDetails {
  const { status, requestId, type } = error ?? {};
  return { status, requestId, type, cause: error ?? otherwise };
}

/** More seconds than a number may hold count as this many, as for ages in RFC 9111 1.2.2. */
const LONGEST_SECONDS = 2 ** 31;

/** Milliseconds of `Retry-After`; 0 if there is none. A date counts from the answer's own `Date`: clocks may differ. */
export function retryAfterMs(headers: Headers): number {
  const text = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text), LONGEST_SECONDS) * 1000;
  const ms = Date.parse(text) - Date.parse(headers.get('date') ?? '');
  return Number.isNaN(ms) ? 0 : Math.max(ms, 0);
}

/** Statuses that are not final: another attempt may be answered differently. 425 is a gateway's, to what came in TLS early data (RFC 8470). */
export function isMomentary(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

/**
 * A sentence of a 400 about what the caller asks for: it begins with the member. It is the same in each attempt of a call, so none can
 * have been carried out. Other 4xx may be about one attempt alone: a proxy that drops a header, or limits bodies.
 */
export function isAboutContent(status: number, message: string): boolean {
  return status === 400 && /^(?:transactions\[\d+\]: )?'\w+'/.test(message);
}

/** For a request that may be sent again after any result. */
export function again(result: Answer | Lost): Again {
  return {
    state: 'again',
    retryAfterMs: result.state === 'lost' ? 0 : retryAfterMs(result.headers),
    isFutile: isFutile(result),
    error: failureOf(result),
  };
}

/** True if each further attempt would end as this one did. */
export const isFutile = (result: Answer | Lost) => result.state === 'lost' && isLasting(result.cause);

/** The error of an attempt without a final answer: no answer, half of one, one that asks for a retry, or that proves nothing. */
export function failureOf(result: Answer | Lost): UnavailableError {
  if (result.state === 'lost') {
    const { mayHaveArrived, baseUrl, cause } = result;
    const what = mayHaveArrived ? `The connection to ${baseUrl} failed` : `${baseUrl} could not be reached`;
    return new UnavailableError(`${what}: ${reasonOf(cause)}.${adviceFor(cause)}`, undefined, { cause });
  }
  const seconds = Math.ceil(retryAfterMs(result.headers) / 1000);
  return new UnavailableError(messageOf(result) ?? foreign(result), seconds || undefined, detailsOf(result));
}

/** The error of an answer that is final for its request: a refusal of the service, or what is not its own. */
export function refusalOf(answer: Answer): IdempayError {
  const { status, headers } = answer;
  const message = messageOf(answer);
  const details = detailsOf(answer);
  if (message === undefined) return new UnexpectedAnswerError(foreign(answer), details);
  if (status === 401 || status === 403) return new NotAuthorizedError(message, details);
  if (INVALID.has(status)) return new InvalidRequestError(message, details);
  if (status === 404 && !message.startsWith('There is nothing at this path')) {
    return new NotFoundError(message, details);
  }
  if (status === 409 || status === 412) {
    const seconds = Math.ceil(retryAfterMs(headers) / 1000);
    return new ConflictError(message, seconds || undefined, details);
  }
  return new UnexpectedAnswerError(message, details);
}

/** For a person: what came instead of an answer of the service. */
export function foreign({ status }: Pick<Answer, 'status'>): string {
  const isRedirect = status === 0 || (status >= 300 && status < 400 && status !== 304);
  const what = isRedirect
    ? 'A redirect, which is not followed: give the address that it leads to as baseUrl.'
    : `An answer ${status} that is not the service's own, or not all of it.`;
  return `${what} Check baseUrl, and what is between this client and the service.`;
}
