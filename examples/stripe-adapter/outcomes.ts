import { decimalText } from './amounts.ts';
import type { Reply } from './stripe.ts';

/** An answer of the contract in docs/reference/processor.md. */
export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, string>>;
}

interface StripeError {
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  readonly message?: string;
  readonly payment_intent?: PaymentIntent;
}

export interface PaymentIntent {
  readonly id: string;
  readonly status: string;
  readonly amount: number;
  readonly currency: string;
  readonly last_payment_error?: StripeError | null;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The payer reads the reason. Nothing was charged, and the same content gets the same answer from every attempt. */
export const declined = (reason: string): Answer => ({ status: 402, body: { status: 'declined', reason } });
export const atWork: Answer = { status: 409, body: { status: 'processing' } };
/** Nothing is known. The text is for the log of whoever looks. */
export const unclear = (status: 425 | 502 | 503 | 504, error: string): Answer => ({ status, body: { error } });
/** Only a person can mend it: Idempay sounds an alarm, and the payment stays unknown. */
export const wrongSetUp = (error: string): Answer => ({ status: 422, body: { error } });

/**
 * Refusals of the content, which is the same in each attempt: nothing was charged, and nothing will be. Both amounts are outside of what
 * Stripe takes in this currency. `invalid_charge_amount` is of another API, and `resource_missing` or `payment_method_unactivated` may be a
 * wrong key or account, which somebody can correct: they stay unknown, like every code that is not here.
 */
const REFUSED_AMOUNTS = ['amount_too_small', 'amount_too_large'];

/** A currency that the account never takes: Stripe answers it without a code, and names the parameter and the currency. */
const isRefusedCurrency = ({ code, param, message }: StripeError) =>
  code === undefined && param === 'currency' && message?.startsWith('Invalid currency: ') === true;

/** The meaning of the answer to the charge. An answer that is not surely an outcome is none. */
export function outcomeOf(reply: Reply): Answer {
  if (reply.state === 'lost') return unclear(504, `no answer of Stripe: ${reply.cause}`);
  const { status, body } = reply;
  if (status === 200) return outcomeOfIntent(body as unknown as PaymentIntent);
  return outcomeOfError(status, (body.error ?? {}) as StripeError);
}

function outcomeOfError(status: number, error: StripeError): Answer {
  const { type, code, message, payment_intent } = error;
  const said = `Stripe answered ${status} ${code ?? type ?? ''}: ${message ?? ''}`;
  if (status >= 500) return unclear(502, said);
  // Another request with this key is at work.
  if (status === 409 || code === 'lock_timeout') return atWork;
  if (status === 429) return unclear(503, said);
  // By its type first: an idempotency error says nothing of the first request with the key, whatever else it has.
  const isDeclined = status === 402 && type === 'card_error';
  const isRefused = status === 400 && type === 'invalid_request_error' && isRefusedContent(error);
  if (!isDeclined && !isRefused) return wrongSetUp(said);
  const isFailed = !payment_intent || payment_intent.status === 'requires_payment_method';
  return isFailed ? declined(message ?? code ?? 'the card was declined') : outcomeOfIntent(payment_intent);
}

function isRefusedContent(error: StripeError): boolean {
  return REFUSED_AMOUNTS.includes(error.code ?? '') || isRefusedCurrency(error);
}

/** A success says what was charged: Idempay compares it with what it asked for. */
export function outcomeOfIntent(intent: PaymentIntent): Answer {
  const { id, status, amount, currency, last_payment_error: error } = intent;
  if (status === 'succeeded') {
    return { status: 200, body: { status: 'succeeded', id, amount: decimalText(amount, currency), currency } };
  }
  if (status === 'canceled') return declined('the payment was canceled');
  // Only one confirmation was ever sent, and it failed.
  if (status === 'requires_payment_method' && error) return declined(error.message ?? error.code ?? 'declined');
  return atWork;
}
