import {
  DeclinedError,
  type IdempayError,
  InvalidRequestError,
  UnavailableError,
  UnknownOutcomeError,
} from '../errors.js';
import { type Call, type CallOptions, unlessAborted } from '../http/call.js';
import { type GivenUp, repeat } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Transport } from '../http/transport.js';
import type { Payment, PaymentRequest } from '../representations.js';
import type { Settings } from '../settings.js';
import { type IdempotencyKeys, KEY } from './idempotency-keys.js';
import { type PaymentAnswer, readPaymentAnswer } from './payment-answers.js';
import { findPayment } from './payment-records.js';

export interface PayOptions extends CallOptions {
  /**
   * Called once for each call of `pay` with the key, and awaited before anything is sent. Store the key with the payment where a
   * crash does not lose them. If it fails, nothing is sent.
   */
  readonly onKey?: ((key: string) => void | Promise<void>) | undefined;
}

export interface PayResult {
  readonly transactionId: string;
  /** The service answered from the stored result: an earlier attempt, of this call or another one, had paid. */
  readonly replayed: boolean;
  readonly key: string;
  /** Of this call. */
  readonly attempts: number;
}

type Ended = Exclude<PaymentAnswer, { state: 'again' }> & { readonly attempts: number };

/** How long the service is asked to wait for a payment under way; more would only hold connections. */
const LONGEST_WAIT_SECONDS = 10;
/** The part of an attempt's time-out that is left for the network. */
const AROUND_WAIT_MS = 2_000;

/** One payment for one key, whatever happens on the way. */
export class Payer {
  constructor(
    private readonly settings: Settings,
    private readonly transport: Transport,
    private readonly requests: Requests,
    private readonly keys: IdempotencyKeys,
  ) {}

  /**
   * A crash before `onKey` has stored the key: nothing was sent, and `pay` may be called again. A crash after it: `resume`
   * continues, whether anything was sent or not. So one call never uses a second key: a caller that stored only the first would
   * resume a payment that the second key has paid.
   */
  async pay(payment: PaymentRequest, { onKey, ...options }: PayOptions): Promise<PayResult> {
    const body = bodyOf(payment);
    return this.requests.within(options, async (call) => {
      const key = await this.keys.take(call);
      await handOver(onKey, key, call);
      return this.#settle(call, key, body, false);
    });
  }

  /** An attempt before the caller's crash may have arrived, and may even be on its way. */
  async resume(key: string, payment: PaymentRequest, options: CallOptions): Promise<PayResult> {
    if (typeof key !== 'string' || !KEY.test(key)) {
      throw new InvalidRequestError("'key' must be the key that onKey was given, or that an error holds.");
    }
    const body = bodyOf(payment);
    return this.requests.within(options, (call) => this.#settle(call, key, body, true));
  }

  async #settle(call: Call, key: string, body: string, arrivedBefore: boolean): Promise<PayResult> {
    let mayHaveArrived = arrivedBefore;
    const end = await repeat<Ended>(this.settings, call, async (attempts) => {
      const answer = await this.#attempt(call, key, body);
      if (answer.state !== 'again') return { state: 'done', value: { ...answer, attempts } };
      mayHaveArrived ||= answer.mayHaveArrived;
      return answer;
    });
    if (end.state === 'given up') throw mayHaveArrived ? unknownAtEnd(call, key, end) : unavailable(call, end);
    const { value } = end;
    switch (value.state) {
      case 'paid':
        return { transactionId: value.transactionId, replayed: value.replayed, key, attempts: value.attempts };
      case 'final':
        throw value.error;
      case 'refused':
        throw mayHaveArrived ? unknown(REFUSED, key, value.attempts, undefined, value.error) : value.error;
      case 'key refused':
        this.keys.forget();
        if (!mayHaveArrived) throw keyRefused(value.error);
        return this.#lookUp(call, key, value.attempts, value.error);
    }
  }

  async #attempt(call: Call, key: string, body: string): Promise<PaymentAnswer> {
    const timeMs = Math.min(this.settings.attemptTimeoutMs, call.remainingMs());
    const waitSeconds = Math.min(Math.floor((timeMs - AROUND_WAIT_MS) / 1000), LONGEST_WAIT_SECONDS);
    const headers = { 'idempotency-key': key, ...(waitSeconds > 0 && { prefer: `wait=${waitSeconds}` }) };
    return readPaymentAnswer(
      await this.transport.send(call, { method: 'POST', path: '/api/payment', headers, body }),
      key,
    );
  }

  /** The key is refused although an attempt may have arrived. Another key could charge twice; the record may know. */
  async #lookUp(call: Call, key: string, attempts: number, refusal: IdempayError): Promise<PayResult> {
    let record: Payment | undefined;
    try {
      record = await findPayment(this.requests, call, key);
    } catch (fault) {
      throw unknown(UNREADABLE, key, attempts, undefined, fault as IdempayError);
    }
    if (record?.state === 'COMPLETED' && record.transactionId !== null) {
      return { transactionId: record.transactionId, replayed: true, key, attempts };
    }
    const { status, requestId } = refusal;
    if (record?.state === 'DECLINED') {
      const reason = record.reason ?? '';
      throw new DeclinedError(`Payment declined: ${reason}`, reason, key, { status, requestId, cause: refusal });
    }
    throw unknown(record ? UNDECIDED : NO_RECORD, key, attempts, record ?? null, refusal);
  }
}

const REFUSED =
  'It is not known whether the payment was charged: an attempt may have arrived, and the last one was refused';
const UNREADABLE =
  'It is not known whether the payment was charged: the service refuses the key, and its record cannot be read';
const UNDECIDED =
  'It is not known whether the payment was charged: the service refuses the key, and its record is not final';
const NO_RECORD =
  'The service refuses the key (expired or lost) and has no payment for it. An attempt may have arrived all the same: look for the key at the processor before you pay again';

function unknown(
  what: string,
  key: string,
  attempts: number,
  record: Payment | null | undefined,
  cause: IdempayError,
): UnknownOutcomeError {
  const { status, requestId, message } = cause;
  return new UnknownOutcomeError(`${what}. ${message}`, key, attempts, record, { status, requestId, cause });
}

function unknownAtEnd(call: Call, key: string, { attempts, last }: GivenUp): UnknownOutcomeError {
  const why = call.wasAborted() ? 'the caller aborted' : 'the deadline ended';
  const tail = last ? ` The last attempt: ${last.message}` : '';
  const message = `It is not known whether the payment was charged: ${why} before an answer. Resume it with its key.${tail}`;
  const { status, requestId } = last ?? {};
  const cause = last ?? call.signal.reason;
  return new UnknownOutcomeError(message, key, attempts, undefined, { status, requestId, cause });
}

/** The only attempt that can have arrived was refused, so nothing was charged. */
function keyRefused(cause: IdempayError): UnavailableError {
  const { status, requestId } = cause;
  const message =
    'The service does not know the key any more, so nothing was charged. Call pay again: it takes a new key.';
  return new UnavailableError(message, undefined, { status, requestId, cause });
}

async function handOver(onKey: PayOptions['onKey'], key: string, call: Call): Promise<void> {
  if (!onKey || call.signal.aborted) return;
  try {
    await unlessAborted(call.signal, Promise.resolve(onKey(key)));
  } catch (fault) {
    const why = call.signal.aborted ? 'The call ended before onKey did' : 'onKey failed';
    throw new UnavailableError(`${why}, so nothing was sent.`, undefined, { cause: fault });
  }
}

function bodyOf(payment: PaymentRequest): string {
  const { amount, currency } = payment ?? {};
  if (typeof amount !== 'string') throw new InvalidRequestError("'amount' must be a string such as '100.50'.");
  if (typeof currency !== 'string') throw new InvalidRequestError("'currency' must be a string such as 'USD'.");
  return JSON.stringify({ amount, currency });
}
