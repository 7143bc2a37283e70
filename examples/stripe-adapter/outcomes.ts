import { decimalText } from './amounts.ts';
import type { Reply } from './stripe.ts';

/** The name in the shop's metadata with which its page asks for another action than an address. */
export const ACTION = 'idempay_action';
export const CLIENT_SECRET = 'clientSecret';
/** The mark of a PaymentIntent that was never to be charged: it takes the key of a charge that may still arrive. */
export const ENDING = 'idempay_ending';

/** An answer of the contract in docs/reference/processor.md. */
export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, string | Action>>;
}

/** The action goes to the payer's browser. No log has it. */
type Action = Readonly<Record<string, string>>;

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
  /** Seconds since the epoch. */
  readonly created: number;
  readonly client_secret?: string | null;
  readonly next_action?: { readonly redirect_to_url?: { readonly url?: string | null } } | null;
  readonly last_payment_error?: StripeError | null;
  readonly cancellation_reason?: string | null;
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

const errorOf = (reply: Reply): StripeError =>
  reply.state === 'answered' ? ((reply.body.error ?? {}) as StripeError) : {};

/** The key came before with other parameters, or for another path. It says nothing of what that request did. */
export const isOfAnotherRequest = (reply: Reply) =>
  reply.state === 'answered' && reply.status === 400 && errorOf(reply).type === 'idempotency_error';

/** The PaymentIntent is in a state in which the request is not possible. */
export const isUnexpectedState = (reply: Reply) => errorOf(reply).code === 'payment_intent_unexpected_state';

/** Refused before anything began, also before Stripe looked at an idempotency key. */
export const isRateLimited = (reply: Reply) =>
  reply.state === 'answered' && reply.status === 429 && errorOf(reply).code !== 'lock_timeout';

/** The PaymentIntent in a reply, also in the reply of a decline. The reply may be the first one to the key, and old. */
export function intentIn(reply: Reply): PaymentIntent | undefined {
  if (reply.state === 'lost') return undefined;
  if (reply.status === 402) return errorOf(reply).payment_intent;
  return reply.status === 200 ? (reply.body as unknown as PaymentIntent) : undefined;
}

/** The first confirmation failed, before the payer was given anything. */
export const isDeclineOf = ({ status }: PaymentIntent, reply: Reply) =>
  status === 'requires_payment_method' && reply.state === 'answered' && reply.status === 402;

/**
 * The meaning of an answer of Stripe other than 200 for the request that was just sent. An answer that is not surely an outcome is none.
 */
export function outcomeOfRefusal(reply: Reply): Answer {
  if (reply.state === 'lost') return unclear(504, `no answer of Stripe: ${reply.cause}`);
  const { status } = reply;
  const error = errorOf(reply);
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
  return withMoney(declined(message ?? code ?? 'the card was declined'), payment_intent);
}

function isRefusedContent(error: StripeError): boolean {
  return REFUSED_AMOUNTS.includes(error.code ?? '') || isRefusedCurrency(error);
}

/** The whole charge was given back at the same moment: of another refund, or in Stripe's dashboard. */
const ALREADY_REFUNDED = 'charge_already_refunded';

/** The same of a refund that was just sent, which is declined for this reason only. */
export function outcomeOfRefundRefusal(reply: Reply): Answer {
  if (errorOf(reply).code === ALREADY_REFUNDED) return declined('more than is left of the charge');
  const refused = outcomeOfRefusal(reply);
  return refused.status === 402 ? wrongSetUp(`Stripe refused a refund: ${refused.body.reason}`) : refused;
}

export const isFinal = ({ status }: PaymentIntent) => status === 'succeeded' || status === 'canceled';

/** True for a PaymentIntent that takes the place of a charge that must not be made any more. */
export const isEnding = ({ metadata }: PaymentIntent) => metadata?.[ENDING] !== undefined;

/** The expected end of a payment that waits. It is the same in each reply, because it is counted from the charge. */
export const untilMs = ({ created }: PaymentIntent, pendingMs: number) => created * 1000 + pendingMs;

/**
 * True if the payment must not be paid any more: after a confirmation that failed, because the payer could confirm it once more with the
 * client secret, and after the time in which a payer may confirm.
 */
export function isOver(intent: PaymentIntent, pendingMs: number, nowMs: number): boolean {
  if (isFinal(intent)) return false;
  const hasFailed = intent.status === 'requires_payment_method' && Boolean(intent.last_payment_error);
  return hasFailed || isEnding(intent) || nowMs >= untilMs(intent, pendingMs);
}

/**
 * The reply to a charge with this PaymentIntent. Each reply has the charged amount, which Idempay compares with the amount that it asked
 * for.
 */
export function outcomeOfIntent(intent: PaymentIntent, pendingMs: number): Answer {
  const { status } = intent;
  if (status === 'succeeded') return withMoney({ status: 200, body: { status } }, intent);
  if (status === 'canceled') return withMoney(declined(reasonOf(intent)), intent);
  if (status !== 'requires_action' && status !== 'processing') return withMoney(atWork, intent);
  const until = new Date(untilMs(intent, pendingMs)).toISOString();
  const action = status === 'requires_action' ? actionOf(intent) : undefined;
  return withMoney({ status: 202, body: { status: 'pending', until, ...(action && { action }) } }, intent);
}

function withMoney(answer: Answer, intent: PaymentIntent | undefined): Answer {
  if (intent === undefined) return answer;
  const { id, amount, currency } = intent;
  return { ...answer, body: { ...answer.body, id, amount: decimalText(amount, currency), currency } };
}

function actionOf({ metadata, client_secret, next_action }: PaymentIntent): Action | undefined {
  if (metadata?.[ACTION] === CLIENT_SECRET) return client_secret ? { [CLIENT_SECRET]: client_secret } : undefined;
  const url = next_action?.redirect_to_url?.url;
  return url ? { url } : undefined;
}

function reasonOf({ last_payment_error: error, cancellation_reason }: PaymentIntent): string {
  if (error) return error.message ?? error.code ?? 'declined';
  return cancellation_reason === 'abandoned' ? 'the payment was not confirmed in time' : 'the payment was cancelled';
}
