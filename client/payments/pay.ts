import { type IdempayError, InvalidRequestError, UnavailableError, UnknownOutcomeError } from '../errors.js';
import { causedBy } from '../http/answers.js';
import { type Call, type CallOptions, unlessAborted } from '../http/call.js';
import { type GivenUp, whyGivenUp } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Outgoing, Transport } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { PaymentRequest, PresentPaymentRequest } from '../representations.js';
import type { Settings } from '../settings.js';
import { repeatAttempts } from './attempts.js';
import { type IdempotencyKeys, KEY } from './idempotency-keys.js';
import type { PaidMoney } from './money.js';
import { readPaymentAnswer } from './payment-answers.js';
import { ofKey, paymentIn } from './payment-records.js';
import {
  type AskedPayment,
  askedReference,
  namesReference,
  type PaymentReference,
  referenceQuery,
  withKeyOf,
} from './references.js';
import { outcomeOfRefusedKey, type Settled } from './refused-key.js';

/** For a payment without a reference. */
export interface KeyOptions extends CallOptions {
  /**
   * Called once for each call of `pay` with the key, and awaited before anything is sent. Store the key with the payment in a place that
   * survives a crash. If it fails, nothing is sent.
   */
  readonly onKey?: ((key: string) => void | Promise<void>) | undefined;
  readonly reference?: never;
  readonly attempt?: never;
}

/** With a reference nothing has to be kept: the same call, from anywhere, pays once. */
export interface ReferenceOptions extends CallOptions, PaymentReference {
  readonly onKey?: never;
}

export type PayOptions = ReferenceOptions | KeyOptions;

/**
 * `amount` and `currency` are the paid money: the money that `pay` was asked for, or the record's if the key may have paid something else
 * before, as in `resume`. Null if the record could not be read (it needs the scope `payments:read`).
 */
export interface PayResult extends PaidMoney {
  readonly transactionId: string;
  /** The service answered from the stored result: an earlier attempt, of this call or another one, had paid. */
  readonly replayed: boolean;
  readonly key: string;
  /** How often this call sent the payment. */
  readonly attempts: number;
}

/** The result of a payment whose payer is present. */
export type PresentPayResult = PaidResult | PendingResult;

export interface PaidResult extends PayResult {
  readonly state: 'paid';
}

/**
 * The payment is not paid yet, and may still be. Nothing is lost if the payer or this program goes away, because the same call goes on with
 * the payment.
 */
export interface PendingResult {
  readonly state: 'pending';
  /** The time at which the processor expects the end (RFC 3339). It may move. */
  readonly until: string;
  /**
   * The means for the payer to confirm: send the browser to `url`. Give it only to the session that owns the order, and keep it nowhere.
   * Undefined if the payer has nothing to do, because a bank takes time.
   */
  readonly action: Readonly<Record<string, string>> | undefined;
  /** The time after which to call again, if the payer has not come back before. */
  readonly retryAfterSeconds: number | undefined;
  readonly key: string;
  readonly attempts: number;
}

type Wanted = PaymentRequest | PresentPaymentRequest;

/** How long the service is asked to wait for a payment under way; more would only hold connections. */
const LONGEST_WAIT_SECONDS = 10;
/** The part of an attempt's time-out that is left for the network. */
const AROUND_WAIT_MS = 2_000;

/** One payment for one reference, or for one key, with any fault on the way. */
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
  async pay(payment: Wanted, options: PayOptions): Promise<PayResult | PresentPayResult> {
    refuseUnknown(options, 'option of pay', OPTIONS);
    if (namesReference(options)) return this.#payReference(payment, options);
    const { onKey } = options;
    const wanted = checked(payment);
    return this.requests.within(options, async (call) => {
      const key = await this.keys.take(call);
      await handOver(onKey, key, call);
      const end = await this.#settle(call, { key }, wanted, false);
      if ('until' in end) return end;
      const { money, ...settled } = end;
      // A first attempt that repeats a payment: somebody had paid with this key before.
      const wasPaidBefore = settled.replayed && settled.attempts === 1;
      const paid = wasPaidBefore ? await this.#paid(call, key, settled.transactionId) : moneyOf(wanted);
      return { ...settled, ...(money ?? paid), ...stateFor(wanted) };
    });
  }

  /** The paid money is the requested money: the service refuses another amount of the same reference. */
  async #payReference(payment: Wanted, options: ReferenceOptions): Promise<PayResult | PresentPayResult> {
    const asked = askedReference(options);
    if (options.onKey !== undefined) throw new InvalidRequestError(KEY_OF_REFERENCE);
    const wanted = checked(payment);
    return this.requests.within(options, async (call) => {
      const end = await this.#settle(call, asked, wanted, false);
      return 'until' in end ? end : { ...end, ...moneyOf(wanted), ...stateFor(wanted) };
    });
  }

  /** An attempt before the caller's crash may have arrived, and may even be on its way. */
  async resume(key: string, payment: Wanted, options: CallOptions): Promise<PayResult | PresentPayResult> {
    if (typeof key !== 'string' || !KEY.test(key)) {
      throw new InvalidRequestError("'key' must be the key that onKey was given, or that an error holds.");
    }
    const wanted = checked(payment);
    return this.requests.within(options, async (call) => {
      const end = await this.#settle(call, { key }, wanted, true);
      if ('until' in end) return end;
      const { money, ...settled } = end;
      const paid = money ?? (await this.#paid(call, key, settled.transactionId));
      return { ...settled, ...paid, ...stateFor(wanted) };
    });
  }

  async #settle(
    call: Call,
    asked: AskedPayment,
    payment: Wanted,
    arrivedBefore: boolean,
  ): Promise<Settled | PendingResult> {
    const body = JSON.stringify(payment);
    const end = await repeatAttempts(this.settings, call, {
      asked,
      arrivedBefore,
      send: () => this.transport.send(call, this.#requestOf(call, asked, body)),
      read: (result, named, attempts) => readPaymentAnswer(result, named, attempts, payment.returnUrl !== undefined),
      withKeysOf: withKeyOf,
    });
    const { named, mayHaveArrived } = end;
    if (end.state === 'given up') throw mayHaveArrived ? unknownAtEnd(call, named, end) : unavailable(call, end);
    const { value } = end;
    switch (value.state) {
      case 'paid':
        return {
          transactionId: value.transactionId,
          replayed: value.replayed,
          key: value.key,
          attempts: value.attempts,
        };
      case 'pending':
        return value;
      case 'final':
        throw value.error;
      case 'refused':
        throw mayHaveArrived ? refusedAfterwards(named, value.attempts, value.error) : value.error;
      case 'key refused':
        this.keys.forget();
        return outcomeOfRefusedKey(this.requests, call, {
          key: asked.key as string,
          attempts: value.attempts,
          refusal: value.error,
        });
    }
  }

  #requestOf(call: Call, { key, reference, attempt }: AskedPayment, body: string): Outgoing {
    const timeMs = Math.min(this.settings.attemptTimeoutMs, call.remainingMs());
    const waitSeconds = Math.min(Math.floor((timeMs - AROUND_WAIT_MS) / 1000), LONGEST_WAIT_SECONDS);
    const prefer = waitSeconds > 0 && { prefer: `wait=${waitSeconds}` };
    if (reference === undefined) {
      return { method: 'POST', path: '/api/payment', headers: { 'idempotency-key': key as string, ...prefer }, body };
    }
    const query = referenceQuery(reference, attempt === 1 ? undefined : attempt);
    return { method: 'POST', path: `/api/payment?${query}`, headers: { ...prefer }, body };
  }

  /** The paid money, by one look at the record: the payment is made, so nothing may go wrong any more. */
  async #paid(call: Call, key: string, transactionId: string): Promise<PaidMoney> {
    const result = await this.transport.send(call, ofKey(key));
    const payment = result.state === 'answered' ? paymentIn(result, key) : undefined;
    if (payment?.transactionId !== transactionId) return { amount: null, currency: null };
    const { amount, currency } = payment;
    return { amount, currency };
  }
}

/** A misspelt `reference` would be a payment with a new key at each call. */
const OPTIONS: ReadonlySet<string> = new Set(['reference', 'attempt', 'onKey', 'deadlineMs', 'signal']);

const REFUSED =
  'It is not known whether the payment was charged: an attempt may have arrived, and the last one was refused';

function refusedAfterwards(payment: AskedPayment, attempts: number, cause: IdempayError): UnknownOutcomeError {
  return new UnknownOutcomeError(`${REFUSED}. ${cause.message}`, payment, attempts, undefined, causedBy(cause));
}

function unknownAtEnd(call: Call, payment: AskedPayment, end: GivenUp): UnknownOutcomeError {
  const { reference, attempt } = payment;
  const { attempts, last } = end;
  const [what, next] =
    reference === undefined
      ? ['the payment', 'Resume it with its key.']
      : [`${reference} (attempt ${attempt})`, 'Pay the same reference and attempt again.'];
  const tail = last ? ` The last attempt: ${last.message}` : '';
  const message = `It is not known whether ${what} was charged: ${whyGivenUp(call, end)}. ${next}${tail}`;
  return new UnknownOutcomeError(message, payment, attempts, undefined, causedBy(last, call.signal.reason));
}

const KEY_OF_REFERENCE = "'onKey' is for payments without a 'reference', whose key has to be kept. Leave it out.";
/** A result without a `returnUrl` is as it always was. */
const stateFor = ({ returnUrl }: Wanted) => (returnUrl === undefined ? {} : ({ state: 'paid' } as const));
const moneyOf = ({ amount, currency }: Wanted) => ({ amount, currency: currency.toUpperCase() });

async function handOver(onKey: PayOptions['onKey'], key: string, call: Call): Promise<void> {
  if (!onKey || call.signal.aborted) return;
  try {
    await unlessAborted(call.signal, Promise.resolve(onKey(key)));
  } catch (fault) {
    const why = call.signal.aborted ? 'The call ended before onKey did' : 'onKey failed';
    throw new UnavailableError(`${why}, so nothing was sent.`, undefined, { cause: fault });
  }
}

/** The service ignores other members, so that a payment with a misspelt `source` would be charged without its payer. */
const MEMBERS: ReadonlySet<string> = new Set(['amount', 'currency', 'source', 'description', 'metadata', 'returnUrl']);

/** The service judges the values: a wrong one charges nothing, and spends no key. */
function checked(payment: Wanted): Wanted {
  const { amount, currency, source, description, metadata, returnUrl } = payment ?? {};
  refuseUnknown(payment ?? {}, 'member of a payment', MEMBERS);
  if (typeof amount !== 'string') throw new InvalidRequestError("'amount' must be a string such as '100.50'.");
  if (typeof currency !== 'string') throw new InvalidRequestError("'currency' must be a string such as 'USD'.");
  if (returnUrl === undefined) return { amount, currency, source, description, metadata };
  // The compiler looks at the result only of a text.
  if (typeof returnUrl !== 'string') throw new InvalidRequestError("'returnUrl' must be a string.");
  return { amount, currency, source, description, metadata, returnUrl };
}
