import type { CallOptions } from '../http/call.js';
import type { Changes } from '../http/changes.js';
import type { Requests } from '../http/requests.js';
import type { Transport } from '../http/transport.js';
import type {
  Payment,
  PaymentRequest,
  PaymentTimeline,
  PresentPaymentRequest,
  ProcessorAnswer,
  Resolution,
} from '../representations.js';
import type { Settings } from '../settings.js';
import { Canceller, type CancelResult, type CancelTarget } from './cancel.js';
import { createIdempotencyKeys } from './idempotency-keys.js';
import {
  type KeyOptions,
  Payer,
  type PayOptions,
  type PayResult,
  type PresentPayResult,
  type ReferenceOptions,
} from './pay.js';
import { type ExportFilter, type PaymentFilter, type PaymentList, PaymentRecords } from './payment-records.js';
import type { OperatedReference } from './references.js';
import { Refunder, type RefundRequest, type RefundResult } from './refund.js';
import { statusOf } from './status.js';

export interface Payments {
  /**
   * With a reference: pays it once, however often this is called, by any number of processes, after any crash; nothing has to be kept.
   * Rejects with one of the classes of errors.ts: after an UnknownOutcomeError call it again as it was. Only if the payer wants to try
   * again after a DeclinedError, call it with the `nextAttempt` of the error.
   *
   * Without a reference: pays once, with one new key for all requests of this call. After an UnknownOutcomeError money may have moved
   * or still move, and `resume` goes on; after a DeadKeyError, which is one too, a person looks at the processor.
   *
   * Options whose `reference` is optional do not compile: without it, each call would be another payment. Check first that it is there.
   */
  pay(payment: PaymentRequest, options?: KeyOptions): Promise<PayResult>;
  pay(payment: PaymentRequest, options: ReferenceOptions): Promise<PayResult>;
  /**
   * Pays while the payer is present: with a `returnUrl` the payment may be pending. Send the payer to `action.url`, and repeat the same
   * call when the payer has come back, and now and then until then.
   */
  pay(payment: PresentPaymentRequest, options?: KeyOptions): Promise<PresentPayResult>;
  pay(payment: PresentPaymentRequest, options: ReferenceOptions): Promise<PresentPayResult>;
  /**
   * Closes a payment that is not to be made, so that nothing can ever pay it: exactly one of `pay` and `cancel` succeeds. One that is under
   * way, or pending, is ended at the processor. May be called any number of times. Rejects with a NotCancelledError if it has an outcome.
   */
  cancel(target: CancelTarget, options?: CallOptions): Promise<CancelResult>;
  /**
   * Gives a part of a payment back, or all of it: once for each `name`, however often this is called. A name never expires, and all refunds of a
   * payment together never give back more than was paid. After an UnknownOutcomeError, and while the result is pending, call it again as it was, with
   * the same name: another name is another refund. Rejects with a NotRefundedError if the payment cannot be refunded so. It needs the scope
   * `refunds:write`.
   */
  refund(refund: RefundRequest, options?: CallOptions): Promise<RefundResult>;
  /** The refunds of the payment with this key, the oldest first, of any state; of very many the newest. */
  refunds(key: string, options?: CallOptions): Promise<readonly Payment[]>;
  /** The record of the newest attempt at a reference, or of the one that is named. Rejects with a NotFoundError if there is none. */
  status(reference: OperatedReference, options?: CallOptions): Promise<Payment>;
  /**
   * Goes on with a payment whose key was kept, after the caller's own crash or after an UnknownOutcomeError; `payment` as it was.
   * May be called any number of times: it pays once, or finds the outcome. Without `PAYLOAD_MISMATCH=reject` the service does not
   * compare `payment` with what was paid: compare the result (`isSamePayment`).
   */
  resume(key: string, payment: PaymentRequest, options?: CallOptions): Promise<PayResult>;
  resume(key: string, payment: PresentPaymentRequest, options?: CallOptions): Promise<PresentPayResult>;
  /** Fetches keys ahead until `count` are there, so that a payment is one request. Each is usable for `keyLifeMs`. */
  prefetchKeys(count: number, options?: CallOptions): Promise<void>;
  /** One payment; asked with the tag of the last time. */
  get(key: string, options?: CallOptions): Promise<Payment>;
  list(filter?: PaymentFilter, options?: CallOptions): PaymentList;
  /**
   * For operators: the payments that were settled on a day (UTC, such as `'2026-11-25'`), or on the days from it to `lastDay`, which is
   * included, in that order, of all processors or of one; with `kind`, refunds too. They are all of them only when the iteration has ended without an error.
   */
  export(day: string, options?: CallOptions & ExportFilter): AsyncIterable<Payment>;
  /** The steps of the payment with this key, or of the refund, and what happens next. */
  timeline(key: string, options?: CallOptions): Promise<PaymentTimeline>;
  /** For operators: the service asks the processor now what it knows of a payment. Nothing is charged, and nothing is written. */
  askProcessor(key: string, options?: CallOptions): Promise<ProcessorAnswer>;
  /** For operators: ends a payment that stays unknown. After an UnknownChangeError the same resolution may be given again. */
  resolve(key: string, resolution: Resolution, options?: CallOptions): Promise<Payment>;
}

/** Only a payment with a `returnUrl` may be pending. */
type AnyPayment = PaymentRequest | PresentPaymentRequest;

export function createPayments(
  settings: Settings,
  transport: Transport,
  requests: Requests,
  change: Changes,
): Payments {
  const keys = createIdempotencyKeys(requests, settings);
  const payer = new Payer(settings, transport, requests, keys);
  const canceller = new Canceller(settings, transport, requests);
  const refunder = new Refunder(settings, transport, requests);
  const records = new PaymentRecords(requests, change, settings.remembered);
  return {
    pay: ((payment: AnyPayment, options: PayOptions = {}) => payer.pay(payment, options)) as Payments['pay'],
    cancel: async (target, options = {}) => canceller.cancel(target, options),
    refund: async (refund, options = {}) => refunder.refund(refund, options),
    refunds: async (key, options = {}) => records.refunds(key, options),
    status: (reference, options = {}) => statusOf(requests, reference, options),
    resume: ((key: string, payment: AnyPayment, options: CallOptions = {}) =>
      payer.resume(key, payment, options)) as Payments['resume'],
    prefetchKeys: (count, options = {}) => requests.within(options, (call) => keys.fetchAhead(call, count)),
    get: async (key, options = {}) => records.get(key, options),
    list: (filter = {}, options = {}) => records.list(filter, options),
    export: (day, { processor, lastDay, kind, ...options } = {}) =>
      records.export(day, { processor, lastDay, kind }, options),
    timeline: async (key, options = {}) => records.timeline(key, options),
    askProcessor: async (key, options = {}) => records.askProcessor(key, options),
    resolve: async (key, resolution, options = {}) => records.resolve(key, resolution, options),
  };
}
