import { type IdempayError, InvalidRequestError, UnknownOutcomeError } from '../errors.js';
import { causedBy } from '../http/answers.js';
import type { Call, CallOptions } from '../http/call.js';
import { type GivenUp, whyGivenUp } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Outgoing, Transport } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { Settings } from '../settings.js';
import { repeatAttempts } from './attempts.js';
import { KEY } from './idempotency-keys.js';
import { checkedReference, checkedRefundName, namesReference } from './references.js';
import { type AskedRefund, readRefundAnswer, withRefundKeyOf } from './refund-answers.js';

/** A part of a payment, or all of it, to be given back once. */
export type RefundRequest = RefundContent & (RefundedReference | RefundedKey);

interface RefundContent {
  /**
   * Your own name of this refund among those of the payment, such as `'line-2'`: 1 to 128 of `A-Z a-z 0-9 - . _ ~ : / @`. A repeat has the
   * same name, because another name is another refund. It never expires.
   */
  readonly name: string;
  /** A decimal number as a string, such as `'12.50'`. */
  readonly amount: string;
  /** The currency of the payment. */
  readonly currency: string;
  /** A text for the processor and for the record, of up to 255 characters. */
  readonly reason?: string | undefined;
}

/** The attempt at the reference that was paid. */
export interface RefundedReference {
  readonly reference: string;
  /** For operators: the client that has the reference, such as `key:shop`. */
  readonly client?: string | undefined;
  readonly key?: never;
}

export interface RefundedKey {
  /** The key of the payment. */
  readonly key: string;
  readonly reference?: never;
  readonly client?: never;
}

/** The result of a refund. */
export type RefundResult = RefundedResult | PendingRefundResult;

export interface RefundedResult {
  readonly state: 'refunded';
  readonly transactionId: string;
  readonly amount: string;
  readonly currency: string;
  /** An earlier request with this name had given it back. */
  readonly replayed: boolean;
  /** The key of the refund, which names it to an operator, and at the processor. */
  readonly key: string;
  /** How often this call sent the refund. */
  readonly attempts: number;
}

/** The processor has accepted it, and takes time. The same call, with the same name, finds its outcome. */
export interface PendingRefundResult {
  readonly state: 'pending';
  /** The time at which the processor expects the end (RFC 3339). It may move. */
  readonly until: string;
  /** Call again then. */
  readonly retryAfterSeconds: number | undefined;
  readonly key: string;
  readonly attempts: number;
}

/** One refund of a payment, with any fault on the way. */
export class Refunder {
  constructor(
    private readonly settings: Settings,
    private readonly transport: Transport,
    private readonly requests: Requests,
  ) {}

  async refund(refund: RefundRequest, options: CallOptions): Promise<RefundResult> {
    const asked = askedIn(refund);
    const request = requestOf(refund, asked);
    return this.requests.within(options, async (call) => {
      const end = await repeatAttempts(this.settings, call, {
        asked,
        send: () => this.transport.send(call, request),
        read: readRefundAnswer,
        withKeysOf: withRefundKeyOf,
      });
      const { named, mayHaveArrived } = end;
      if (end.state === 'given up') throw mayHaveArrived ? unknownAtEnd(call, named, end) : unavailable(call, end);
      const { value } = end;
      if (value.state === 'refunded') return { ...value, ...moneyOf(refund) };
      if (value.state === 'pending') return value;
      throw value.state !== 'final' && mayHaveArrived
        ? refusedAfterwards(named, value.attempts, value.error)
        : value.error;
    });
  }
}

const MEMBERS: ReadonlySet<string> = new Set(['reference', 'client', 'key', 'name', 'amount', 'currency', 'reason']);

function askedIn(refund: RefundRequest): AskedRefund {
  refuseUnknown(refund ?? {}, 'member of a refund', MEMBERS);
  const { name, amount, currency, reason, key, client } = refund ?? {};
  if (typeof amount !== 'string') throw new InvalidRequestError("'amount' must be a string such as '12.50'.");
  if (typeof currency !== 'string') throw new InvalidRequestError("'currency' must be a string such as 'USD'.");
  if (reason !== undefined && typeof reason !== 'string') throw new InvalidRequestError("'reason' must be a string.");
  const refundName = checkedRefundName(name);
  if (namesReference(refund)) {
    if (key !== undefined) throw new InvalidRequestError(ONE_OF_BOTH);
    return { key: undefined, reference: checkedReference(refund.reference), refundName };
  }
  if (typeof key !== 'string' || !KEY.test(key)) throw new InvalidRequestError(ONE_OF_BOTH);
  if (client !== undefined) throw new InvalidRequestError("'client' belongs to a 'reference'.");
  return { key, refundName };
}

const ONE_OF_BOTH = "Give the 'reference' of the payment, or its 'key', and not both.";

function requestOf(
  { client, amount, currency, reason }: RefundRequest,
  { key, reference, refundName }: AskedRefund,
): Outgoing {
  const query = new URLSearchParams({
    ...(reference !== undefined && { reference }),
    ...(client !== undefined && { client }),
    refund: refundName,
  });
  const headers: Record<string, string> = reference === undefined ? { 'idempotency-key': key as string } : {};
  const body = JSON.stringify({ amount, currency, reason });
  return { method: 'POST', path: `/api/refund?${query}`, headers, body };
}

/** The service refuses another amount, and another currency, of the same name. */
const moneyOf = ({ amount, currency }: RefundRequest) => ({ amount, currency: currency.toUpperCase() });

const AGAIN =
  'Refund the same again, with the same name: it is given back once, and another name would be another refund.';

function refusedAfterwards(refund: AskedRefund, attempts: number, cause: IdempayError): UnknownOutcomeError {
  const message = `It is not known whether the refund ${refund.refundName} was made: an attempt may have arrived, and the last one was refused. ${AGAIN} ${cause.message}`;
  return new UnknownOutcomeError(message, refund, attempts, undefined, causedBy(cause));
}

function unknownAtEnd(call: Call, refund: AskedRefund, end: GivenUp): UnknownOutcomeError {
  const { attempts, last } = end;
  const tail = last ? ` The last attempt: ${last.message}` : '';
  const message = `It is not known whether the refund ${refund.refundName} was made: ${whyGivenUp(call, end)}. ${AGAIN}${tail}`;
  return new UnknownOutcomeError(message, refund, attempts, undefined, causedBy(last, call.signal.reason));
}
