import type { Charge, Payment } from './representations.js';

export interface ErrorDetails {
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly type?: string | undefined;
  readonly charge?: Charge | undefined;
  readonly refund?: Charge | undefined;
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
  /**
   * The meaning of that answer, for programs: `/problems#payment-declined`. The service explains each at `/problems`. Undefined if it gave
   * none.
   */
  readonly type: string | undefined;
  /** The service's knowledge of the charge when it refused. If undefined, it did not say, which means no more than `unknown`. */
  readonly charge: Charge | undefined;
  /** The same of a refund: the service's knowledge if the money was given back under this name. */
  readonly refund: Charge | undefined;

  constructor(message: string, { status, requestId, type, charge, refund, cause }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.requestId = requestId;
    this.type = type;
    this.charge = charge;
    this.refund = refund;
  }
}

/** The payment that an error is about. */
export interface PaymentName<Key = string> {
  /** For a payment with a reference, the key that an answer named; undefined until one did. */
  readonly key: Key;
  /** Undefined for a payment without one, and its attempt as well. */
  readonly reference?: string | undefined;
  readonly attempt?: number | undefined;
  /** The name of the refund, if the error is about one. Undefined for a payment, and `refundKey` as well. */
  readonly refundName?: string | undefined;
  /** The key of the refund, which names it to an operator, and at the processor. Undefined until an answer named it. */
  readonly refundKey?: string | undefined;
}

/** The base of the errors about one payment, or one refund of it. */
export abstract class PaymentError<Key = string> extends IdempayError implements PaymentName<Key> {
  readonly key: Key;
  readonly reference: string | undefined;
  readonly attempt: number | undefined;
  readonly refundName: string | undefined;
  readonly refundKey: string | undefined;

  constructor(message: string, payment: PaymentName<Key>, details: ErrorDetails) {
    super(message, details);
    const { key, reference, attempt, refundName, refundKey } = payment;
    this.key = key;
    this.reference = reference;
    this.attempt = attempt;
    this.refundName = refundName;
    this.refundKey = refundKey;
  }
}

/** The number of the last attempt at a reference. */
export const LAST_ATTEMPT = 99;

const attemptAfter = (attempt: number | undefined) =>
  attempt !== undefined && attempt < LAST_ATTEMPT ? attempt + 1 : undefined;

/**
 * Declined (402), by the processor or by an operator. Final: this key is not charged any more. If the processor declined it, nothing was
 * charged; if an operator did, a charge that was sent before may still arrive. If the payer wants to try again,
 * pay the same reference with `nextAttempt`; without a reference call `pay`, which takes another key. Never by itself: only a payer tries again.
 * A refund (`refundName`) that was declined is final too: ask the processor, or give the money back in another way.
 */
export class DeclinedError extends PaymentError {
  override readonly name = 'DeclinedError';
  /** Undefined without a reference, and after the last attempt. */
  readonly nextAttempt: number | undefined;
  constructor(
    message: string,
    /** As the processor gave it. */
    readonly reason: string,
    payment: PaymentName,
    details: ErrorDetails,
  ) {
    super(message, payment, details);
    this.nextAttempt = attemptAfter(payment.attempt);
  }
}

/**
 * The payment was closed with `cancel` (410). Final: no charge will be sent with this key, or for this reference and attempt. If `charge` is
 * `none`, nothing was charged; otherwise a charge of before may still arrive, because rows were lost or an operator declined an attempt.
 */
export class CancelledError extends PaymentError {
  override readonly name = 'CancelledError';
}

/**
 * It is not this attempt's turn (422), and this call did nothing. `why` is about the attempt before it, which must be declined:
 * `previous-absent`, `previous-completed`, `previous-cancelled`, or `previous-too-old`, which is declined and about to be removed. Or it is
 * `superseded`: this attempt was declined, and a later one was made. Ask for the newest one with `status({ reference })`.
 * `previous-pending` (409): its payer may still confirm the attempt before; to take another card, end it with `cancel({ reference, attempt,
 * only: 'attempt' })`.
 */
export class OutOfTurnError extends PaymentError {
  override readonly name = 'OutOfTurnError';
  constructor(
    message: string,
    readonly why:
      | 'previous-absent'
      | 'previous-pending'
      | 'previous-completed'
      | 'previous-cancelled'
      | 'previous-too-old'
      | 'superseded',
    payment: PaymentName,
    details: ErrorDetails,
  ) {
    super(message, payment, details);
  }
}

/**
 * It cannot be cancelled, mostly because it has an outcome (422). `completed`: it is paid, and can be refunded. `declined`:
 * cancel `nextAttempt` to close the order; if an operator declined it, its charge may still arrive. `outcome-at-processor`: only the processor has it; `pay` the same
 * reference and attempt again, which charges nothing and records it. `cannot-be-ended` (409): the processor cannot end it now, so its outcome
 * will come; cancel it again later. `not-begun`: only this attempt was to be ended, and it was never paid with.
 */
export class NotCancelledError extends PaymentError {
  override readonly name = 'NotCancelledError';
  readonly nextAttempt: number | undefined;
  constructor(
    message: string,
    readonly why: 'completed' | 'declined' | 'outcome-at-processor' | 'cannot-be-ended' | 'not-begun',
    payment: PaymentName,
    details: ErrorDetails,
  ) {
    super(message, payment, details);
    this.nextAttempt = why === 'declined' ? attemptAfter(payment.attempt) : undefined;
  }
}

/**
 * Nothing was given back by this call. `too-much`: less than that is left of the payment, namely `left` in `currency`. `other-currency`:
 * the payment was made in `currency`. `not-paid`: it charged nothing. Refund it at the processor if it is `other-processor`, `too-late` (its
 * record is about to be removed) or `not-supported` (its adapter does not know refunds).
 */
export class NotRefundedError extends PaymentError<string | undefined> {
  override readonly name = 'NotRefundedError';
  /** The amount that the payment has left, such as `'12.50'`. Undefined unless `why` is `too-much`. */
  readonly left: string | undefined;
  /** The currency of the payment. Undefined unless `why` is `too-much` or `other-currency`. */
  readonly currency: string | undefined;
  constructor(
    message: string,
    readonly why: 'too-much' | 'other-currency' | 'not-paid' | 'other-processor' | 'too-late' | 'not-supported',
    payment: PaymentName<string | undefined>,
    { left, currency }: { readonly left?: string | undefined; readonly currency?: string | undefined },
    details: ErrorDetails,
  ) {
    super(message, payment, details);
    this.left = left;
    this.currency = currency;
  }
}

/** The request is wrong as it is (400, 413, 414, 415, 421 ...), and did nothing. Correct what the message names. */
export class InvalidRequestError extends IdempayError {
  override readonly name = 'InvalidRequestError';
}

/**
 * The reference, or the key, belongs to a payment, or a create, with other content (422). This call did nothing. Give the content that
 * belongs to it. For payments by key only with `PAYLOAD_MISMATCH=reject`; without it `resume` resolves, and its result has the amount that was paid.
 * With a `refundName`: the payment has a refund of this name, with another amount. Repeat it as it was.
 */
export class MismatchError extends PaymentError {
  override readonly name = 'MismatchError';
}

/**
 * It is not known yet whether the payment was charged, or will be. With a reference: `pay` again with the same `reference` and
 * `attempt`, now or later, from any machine. Without one: keep `key`, and go on with `resume(key, payment)`; never pay the same thing
 * with `pay`, which takes another key, and may charge a second time. `key` is undefined only with a reference. With a `refundName` it is about
 * a refund: `refund` the same again with the same name, because another name is another refund.
 */
export class UnknownOutcomeError extends PaymentError<string | undefined> {
  override readonly name: 'UnknownOutcomeError' | 'DeadKeyError' = 'UnknownOutcomeError';
  constructor(
    message: string,
    payment: PaymentName<string | undefined>,
    /** How often this call sent the payment. */
    readonly attempts: number,
    /**
     * The payment's record, which is looked for if the service refused the key. It is null if the service has none, and undefined if it was
     * not asked or could not be read.
     */
    readonly record: Payment | null | undefined,
    details: ErrorDetails,
  ) {
    super(message, payment, details);
  }
}

/**
 * The service refuses the key, and cannot say whether anything was charged with it. Or, also with a reference: the payment was cancelled
 * after its row had been lost, and was charged all the same (410), so it has to be refunded. To pay the same again does not help, now or
 * later: look for `key` at the processor, which has it as its reference. Never pay in another way before a person has looked.
 */
export class DeadKeyError extends UnknownOutcomeError {
  override readonly name = 'DeadKeyError';
  declare readonly key: string;
}

/**
 * The service refuses the key, and is certain that nothing was charged with it, and that nothing will be. Discard the key, and call
 * `pay`, which takes a new one. This is the only error after which a program may do so by itself.
 */
export class UnusedKeyError extends PaymentError {
  override readonly name = 'UnusedKeyError';
}

/**
 * It is not known whether a transaction was created, changed or removed, or a payment was resolved or cancelled. A cancellation may be
 * repeated at any time. If an `idempotencyKey` was given, and the service's `IDEMPOTENCY_TTL_SECONDS` are not over, repeat with the same
 * one. Else look first, and repeat only what is still wanted.
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
 * Not possible now: the service is down or busy, its certificate is not accepted, the deadline passed, or the caller aborted. This call
 * charged or changed nothing, and will not; another one with the same reference may have. Call again later. `retryAfterSeconds`: not
 * before, if the service said so.
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

/**
 * A webhook that must not be acted on. Answer it with an error: if it is real, Idempay sends it again after you have corrected the cause.
 * `signature`: it is signed with none of the secrets. `too-old` and `too-new`: it is signed, but more than five minutes away from the clock of
 * this machine, so somebody may have sent an old message again. `headers`, `body` and `secrets`: your receiver gave something that is missing
 * or malformed, such as a body that was parsed. `event`: it is signed, but is no event of Idempay.
 */
export class InvalidWebhookError extends IdempayError {
  override readonly name = 'InvalidWebhookError';
  constructor(
    message: string,
    readonly why: 'signature' | 'too-old' | 'too-new' | 'headers' | 'body' | 'secrets' | 'event',
  ) {
    super(message);
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

/**
 * The place in the feed of settlements is of no use any more (410): rows may be lost or a clock was set back, or the service has removed
 * settlements after it (`type` tells which). Follow again with `from`. Settlements that were seen may come again, with the same key and state.
 */
export class SettlementsGoneError extends IdempayError {
  override readonly name = 'SettlementsGoneError';
  constructor(
    message: string,
    /** The time to begin again from (RFC 3339), so that nothing is missing that the service still has. */
    readonly from: string,
    details: ErrorDetails,
  ) {
    super(message, details);
  }
}
