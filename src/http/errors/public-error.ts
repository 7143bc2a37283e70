import { STATUS_CODES } from 'node:http';
import type { Charge } from '../../payments/history/charge.js';
import { PROBLEM_TYPE, prefersProblem } from '../requests/accept.js';
import type { RefusalReason } from '../requests/measures.js';

/** The meaning of an error, for any request that it answers: its type of RFC 9457, and its text on the page `/problems`. */
export interface Problem {
  /** `payment-in-progress`, as in `/problems#payment-in-progress`. Programs act on it, so it never changes. */
  readonly name: string;
  /** `several` if the status is not the same each time. */
  readonly status: number | 'several';
  readonly title: string;
  /** The step that the client should take. */
  readonly action: string;
  /** How the refusal is counted, if it is. */
  readonly countedAs?: RefusalReason | undefined;
}

/** One error that a client gets: `publicErrors` makes each of them. */
export class PublicError extends Error {
  override readonly name = 'PublicError';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly members: Readonly<Record<string, string>>;

  constructor(
    readonly problem: Problem,
    { text, headers = {}, cause, members = {}, status = Number(problem.status) }: Said,
  ) {
    super(text, cause === undefined ? undefined : { cause });
    this.status = status;
    this.headers = headers;
    this.members = members;
  }
}

/** The text of one error for its request. */
export interface Said {
  readonly text: string;
  /** Headers that belong to the error, such as `Retry-After` or `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
  /** More members of the form of RFC 9457. */
  readonly members?: Readonly<Record<string, string>>;
  /** For an entry of several statuses. */
  readonly status?: number;
}

/** The three-field body of spec 2.5. */
export interface ErrorBody {
  status: number;
  error: string;
  message: string;
}

export function errorBody(status: number, message: string): ErrorBody {
  return { status, error: reasonPhrase(status), message };
}

/** Phrases of RFC 9110 that the platform's table still has in the words of older standards. */
const RENAMED_PHRASES: Readonly<Record<number, string>> = { 413: 'Content Too Large', 422: 'Unprocessable Content' };

/** The phrase of a status as RFC 9110 15 has it today: the same in the status line and in the body (rule G1). */
export function reasonPhrase(status: number): string {
  return RENAMED_PHRASES[status] ?? STATUS_CODES[status] ?? 'Error';
}

export interface ErrorForm {
  readonly contentType: string;
  readonly text: string;
}

/**
 * An error in the form that the request asks for with `Accept`: RFC 9457 if it prefers that (rule P20), else the body of spec 2.5. `told`
 * is given for an error of a payment, or of a refund. No error may be kept by a cache, so none needs `Vary`.
 */
export function formOf(error: PublicError, accept: string | undefined, told?: Told): ErrorForm {
  if (!prefersProblem(accept)) {
    const body = errorBody(error.status, error.message);
    return { contentType: 'application/json; charset=utf-8', text: JSON.stringify(body) };
  }
  // RFC 9457 and RFC 6839 name no parameter: it is UTF-8 (RFC 8259 8.1).
  return { contentType: PROBLEM_TYPE, text: JSON.stringify(problemBody(error, told)) };
}

/** The knowledge of a problem's payment, or of its refund: whether it moved money (rules P20 and P26). */
export type Told = { readonly charge: Charge } | { readonly refund: Charge };

/** The members of RFC 9457 3.1, and what is told of the payment or the refund. */
export function problemBody({ problem, status, message: detail, members }: PublicError, told?: Told) {
  // A relative reference (RFC 9457 3.1.1), so that it holds wherever the service is served.
  return { type: `/problems#${problem.name}`, title: problem.title, status, detail, ...members, ...told };
}
