import type { Reply } from './stripe.ts';

/** An answer of the contract in docs/processor.md. */
export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, string>>;
}

interface StripeError {
  readonly type?: string;
  readonly code?: string;
  readonly message?: string;
  readonly payment_intent?: PaymentIntent;
}

export interface PaymentIntent {
  readonly id: string;
  readonly status: string;
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

/** Stripe's own refusals of an amount. They are kept with the key, like every answer after execution began. */
const REFUSED_AMOUNTS = ['amount_too_small', 'amount_too_large'];

/** What the answer to the charge says. Whatever is not surely an outcome is none. */
export function outcomeOf(reply: Reply): Answer {
  if (reply.state === 'lost') return unclear(504, `no answer of Stripe: ${reply.cause}`);
  const { status, body } = reply;
  if (status === 200) return outcomeOfIntent(body as unknown as PaymentIntent);
  const { type, code, message, payment_intent } = (body.error ?? {}) as StripeError;
  const said = `Stripe answered ${status} ${code ?? type ?? ''}: ${message ?? ''}`;
  if (status >= 500) return unclear(502, said);
  // Another request with this key is at work.
  if (status === 409 || code === 'lock_timeout') return atWork;
  if (status === 429) return unclear(503, said);
  if (status === 402 && type === 'card_error') {
    const isFailed = !payment_intent || payment_intent.status === 'requires_payment_method';
    return isFailed ? declined(message ?? code ?? 'the card was declined') : outcomeOfIntent(payment_intent);
  }
  if (status === 400 && REFUSED_AMOUNTS.includes(code ?? '')) return declined(message ?? 'the amount was refused');
  return wrongSetUp(said);
}

export function outcomeOfIntent({ status, last_payment_error: error }: PaymentIntent): Answer {
  if (status === 'succeeded') return { status: 200, body: { status: 'succeeded' } };
  if (status === 'canceled') return declined('the payment was canceled');
  // Only one confirmation was ever sent, and it failed.
  if (status === 'requires_payment_method' && error) return declined(error.message ?? error.code ?? 'declined');
  return atWork;
}
