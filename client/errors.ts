import type { Payment } from './representations.js';

export interface ErrorDetails {
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

/**
 * The base of all errors of the client. There is one class for each possible next step of a caller; its comment describes that step.
 * `message` is for a log: it holds neither keys, nor amounts, nor credentials.
 */
export abstract class IdempayError extends Error {
  /** The status of the answer that decided, if there was one. */
  readonly status: number | undefined;
  /** `X-Request-Id` of that answer, to find it in the service's log. */
  readonly requestId: string | undefined;

  constructor(message: string, { status, requestId, cause }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.requestId = requestId;
  }
}

/** Declined by the processor (402). Final: nothing was charged, and nothing will be. Pay by other means, with `pay`. */
export class DeclinedError extends IdempayError {
  override readonly name = 'DeclinedError';
  constructor(
    message: string,
    /** As the processor gave it. */
    readonly reason: string,
    readonly key: string,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/** The request is wrong as it is (400, 413, 414, 415, 421 ...), and did nothing. Correct what the message names. */
export class InvalidRequestError extends IdempayError {
  override readonly name = 'InvalidRequestError';
}

/**
 * The key belongs to a payment, or a create, with other content (422). This call did nothing. Give the content that belongs to it.
 * For payments only with `PAYLOAD_MISMATCH=reject`; without it `resume` resolves, and its result has the amount that was paid.
 */
export class MismatchError extends IdempayError {
  override readonly name = 'MismatchError';
  constructor(
    message: string,
    readonly key: string,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/**
 * It is not known yet whether the payment was charged, or will be. Keep `key`, and go on with `resume(key, payment)`, now or
 * later. Never pay the same thing with `pay`: it takes another key, and may charge a second time.
 */
export class UnknownOutcomeError extends IdempayError {
  override readonly name: 'UnknownOutcomeError' | 'DeadKeyError' = 'UnknownOutcomeError';
  constructor(
    message: string,
    readonly key: string,
    readonly attempts: number,
    /**
     * The payment's record, which is looked for where the service refused the key. It is null where the service has none, and undefined
     * where it was not asked or could not be read.
     */
    readonly record: Payment | null | undefined,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/**
 * The service refuses the key, and cannot say whether anything was charged with it. `resume` does not help, now or later: look for
 * `key` at the processor, where it is the reference. Never pay the same thing again before a person has looked.
 */
export class DeadKeyError extends UnknownOutcomeError {
  override readonly name = 'DeadKeyError';
}

/**
 * The service refuses the key, and is certain that nothing was charged with it, and that nothing will be. Discard the key, and call
 * `pay`, which takes a new one. This is the only error after which a program may do so by itself.
 */
export class UnusedKeyError extends IdempayError {
  override readonly name = 'UnusedKeyError';
  constructor(
    message: string,
    readonly key: string,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/**
 * It is not known whether a transaction was created, changed or removed, or a payment was resolved. Where an `idempotencyKey` was
 * given, and the service's `IDEMPOTENCY_TTL_SECONDS` are not over: repeat with the same one. Else look first, and repeat only what is
 * still wanted.
 */
export class UnknownChangeError extends IdempayError {
  override readonly name = 'UnknownChangeError';
  constructor(
    message: string,
    readonly idempotencyKey: string | undefined,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/**
 * Not possible now: the service is away or busy, the deadline passed, or the caller aborted. Nothing was charged or changed, and
 * nothing will be. Call again later. `retryAfterSeconds`: not before, where the service said so.
 */
export class UnavailableError extends IdempayError {
  override readonly name = 'UnavailableError';
  constructor(
    message: string,
    readonly retryAfterSeconds: number | undefined,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/** No valid credentials (401), or without the scope (403). Nothing was done. Give the client others. */
export class NotAuthorizedError extends IdempayError {
  override readonly name = 'NotAuthorizedError';
}

/** There is nothing with this id or key (404). */
export class NotFoundError extends IdempayError {
  override readonly name = 'NotFoundError';
}

/**
 * Something else changed it before (412), or its state does not allow the change (409). Nothing was done. Read it again, and decide
 * anew.
 */
export class ConflictError extends IdempayError {
  override readonly name = 'ConflictError';
  constructor(
    message: string,
    readonly retryAfterSeconds: number | undefined,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}

/**
 * An answer that is not the service's own, to a request that changes nothing: a redirect, a page of a proxy, another program. Check
 * `baseUrl` and what is in between.
 */
export class UnexpectedAnswerError extends IdempayError {
  override readonly name = 'UnexpectedAnswerError';
}
