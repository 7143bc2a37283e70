import { type IdempayError, InvalidRequestError, UnavailableError, UnknownOutcomeError } from '../errors.js';
import { type Call, type CallOptions, unlessAborted } from '../http/call.js';
import { type GivenUp, repeat } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Transport } from '../http/transport.js';
import type { PaymentRequest } from '../representations.js';
import type { Settings } from '../settings.js';
import { type IdempotencyKeys, KEY } from './idempotency-keys.js';
import type { PaidMoney } from './money.js';
import { type PaymentAnswer, readPaymentAnswer } from './payment-answers.js';
import { ofKey, paymentIn } from './payment-records.js';
import { outcomeOfRefusedKey, type Settled } from './refused-key.js';

export interface PayOptions extends CallOptions {
  /**
   * Called once for each call of `pay` with the key, and awaited before anything is sent. Store the key with the payment where a
   * crash does not lose them. If it fails, nothing is sent.
   */
  readonly onKey?: ((key: string) => void | Promise<void>) | undefined;
}

/**
 * `amount` and `currency` are what was paid: what `pay` was asked for, or what the record says where the key may have paid something else
 * before, as in `resume`. Null where the record could not be read (it needs the scope `payments:read`).
 */
export interface PayResult extends PaidMoney {
  readonly transactionId: string;
  /** The service answered from the stored result: an earlier attempt, of this call or another one, had paid. */
  readonly replayed: boolean;
  readonly key: string;
  /** How many attempts this call made. */
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
    const wanted = checked(payment);
    const asked = { amount: wanted.amount, currency: wanted.currency.toUpperCase() };
    return this.requests.within(options, async (call) => {
      const key = await this.keys.take(call);
      await handOver(onKey, key, call);
      const { money, ...settled } = await this.#settle(call, key, wanted, false);
      // A first attempt that repeats a payment: somebody had paid with this key before.
      const wasPaidBefore = settled.replayed && settled.attempts === 1;
      return { ...settled, ...(money ?? (wasPaidBefore ? await this.#paid(call, key, settled.transactionId) : asked)) };
    });
  }

  /** An attempt before the caller's crash may have arrived, and may even be on its way. */
  async resume(key: string, payment: PaymentRequest, options: CallOptions): Promise<PayResult> {
    if (typeof key !== 'string' || !KEY.test(key)) {
      throw new InvalidRequestError("'key' must be the key that onKey was given, or that an error holds.");
    }
    const wanted = checked(payment);
    return this.requests.within(options, async (call) => {
      const { money, ...settled } = await this.#settle(call, key, wanted, true);
      return { ...settled, ...(money ?? (await this.#paid(call, key, settled.transactionId))) };
    });
  }

  async #settle(call: Call, key: string, payment: PaymentRequest, arrivedBefore: boolean): Promise<Settled> {
    const body = JSON.stringify(payment);
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
        throw mayHaveArrived ? refusedAfterwards(key, value.attempts, value.error) : value.error;
      case 'key refused':
        this.keys.forget();
        return outcomeOfRefusedKey(this.requests, call, { key, attempts: value.attempts, refusal: value.error });
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

  /** What was paid, by one look at the record: the payment is made, so nothing may go wrong any more. */
  async #paid(call: Call, key: string, transactionId: string): Promise<PaidMoney> {
    const result = await this.transport.send(call, ofKey(key));
    const payment = result.state === 'answered' ? paymentIn(result, key) : undefined;
    if (payment?.transactionId !== transactionId) return { amount: null, currency: null };
    const { amount, currency } = payment;
    return { amount, currency };
  }
}

const REFUSED =
  'It is not known whether the payment was charged: an attempt may have arrived, and the last one was refused';

function refusedAfterwards(key: string, attempts: number, cause: IdempayError): UnknownOutcomeError {
  const { status, requestId, message } = cause;
  return new UnknownOutcomeError(`${REFUSED}. ${message}`, key, attempts, undefined, { status, requestId, cause });
}

function unknownAtEnd(call: Call, key: string, { attempts, last }: GivenUp): UnknownOutcomeError {
  const why = call.wasAborted() ? 'the caller aborted' : 'the deadline ended';
  const tail = last ? ` The last attempt: ${last.message}` : '';
  const message = `It is not known whether the payment was charged: ${why} before an answer. Resume it with its key.${tail}`;
  const { status, requestId } = last ?? {};
  const cause = last ?? call.signal.reason;
  return new UnknownOutcomeError(message, key, attempts, undefined, { status, requestId, cause });
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

/** Only its two members are sent. */
function checked(payment: PaymentRequest): PaymentRequest {
  const { amount, currency } = payment ?? {};
  if (typeof amount !== 'string') throw new InvalidRequestError("'amount' must be a string such as '100.50'.");
  if (typeof currency !== 'string') throw new InvalidRequestError("'currency' must be a string such as 'USD'.");
  return { amount, currency };
}
