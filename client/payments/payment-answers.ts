import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  type IdempayError,
  InvalidRequestError,
  MismatchError,
  type PaymentName,
  type UnavailableError,
} from '../errors.js';
import {
  detailsOf,
  failureOf,
  isAboutContent,
  isFutile,
  isMomentary,
  refusalOf,
  retryAfterMs,
} from '../http/answers.js';
import { jsonOf, pendingIn } from '../http/forms.js';
import { provenMessageOf } from '../http/proof.js';
import type { Answer, Lost } from '../http/transport.js';
import { type RefusedAttempt, refusedAttempt } from './attempt-states.js';
import { type AskedPayment, isAbout, isComputed, keyOfAnswer } from './references.js';

/** The answer of one attempt at a payment, or at its cancellation. */
export type PaymentAnswer<Done> =
  | Done
  /** Final for the payment, or for this content, which no attempt can have paid. */
  | { readonly state: 'final'; readonly error: IdempayError }
  /** The service does not know the key, or not any more: an attempt before this one may have been charged all the same. */
  | { readonly state: 'key refused'; readonly error: IdempayError }
  /** This attempt did nothing, and another one would do nothing either. It says nothing about the attempts before. */
  | { readonly state: 'refused'; readonly error: IdempayError }
  | {
      readonly state: 'again';
      /** False: this attempt surely began nothing. */
      readonly mayHaveArrived: boolean;
      readonly retryAfterMs: number;
      readonly isFutile: boolean;
      readonly error: UnavailableError;
    };

export interface Paid {
  readonly state: 'paid';
  readonly transactionId: string;
  readonly replayed: boolean;
  readonly key: string;
}

export interface Pending {
  readonly state: 'pending';
  readonly until: string;
  readonly action: Readonly<Record<string, string>> | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly key: string;
}

export interface Cancelled {
  readonly state: 'cancelled';
  readonly key: string;
  readonly client: string | undefined;
}

/** Spec 2.4. The text says whether it is a repeat: a browser may not show the header. */
const PAID = /^(Payment processed successfully with )?Transaction ID: (TXN\d+)$/;
const CANCELLED = 'Payment cancelled.';
/** Spec 7, word for word: only these 400 are about the key. */
const KEY_REFUSED = 'Invalid or missing Idempotency-Key.';
const KEY_MISSING = 'Missing Idempotency-Key header.';
const DECLINED = 'Payment declined: ';
/** The text after the processor's reason if a reference was paid. */
const OF_ATTEMPT =
  / \(attempt (\d{1,2})(?:, the last one)?\)\. (?:If the payer wants to try again|Pay with another reference),? .*$/s;

/**
 * Only what is surely the service's own answer is believed (rule P23): everything else may mean a charge. `takesPending`: the caller says
 * that a payer is present; without it the service answers no 202.
 */
export function readPaymentAnswer(
  result: Answer | Lost,
  asked: AskedPayment,
  attempts: number,
  takesPending = false,
): PaymentAnswer<Paid | Pending> {
  if (result.state === 'lost') return again(result, result.mayHaveArrived);
  const key = keyOfAnswer(result, asked);
  const sentence = jsonOf(result);
  const [, first, transactionId] = (typeof sentence === 'string' && PAID.exec(sentence)) || [];
  if (transactionId !== undefined && key !== undefined) {
    return { state: 'paid', transactionId, replayed: first === undefined, key };
  }
  const pending = takesPending ? pendingOf(result, key, asked) : undefined;
  if (pending) return pending;

  const { status } = result;
  const message = provenMessageOf(result);
  if (message === undefined) return again(result, true);
  // A rate limit is checked before everything else.
  if (status === 429) return again(result, false);
  if (isMomentary(status)) return again(result, true);
  if (status !== 402 && status !== 409 && status !== 410 && status !== 422) return refused(result, message, asked);
  return (key !== undefined && finalOf(result, message, { ...asked, key }, attempts)) || again(result, true);
}

/** The same for a cancellation, of which each refusal says that it cancelled nothing. */
export function readCancelAnswer(result: Answer | Lost, asked: AskedPayment): PaymentAnswer<Cancelled> {
  if (result.state === 'lost') return again(result, result.mayHaveArrived);
  const key = keyOfAnswer(result, asked);
  if (key !== undefined && jsonOf(result) === CANCELLED) return { state: 'cancelled', key, client: clientIn(result) };

  const { status } = result;
  const message = provenMessageOf(result);
  if (message === undefined) return again(result, true);
  if (status === 429 || status === 503) return again(result, false);
  if (isMomentary(status)) return again(result, true);
  if (status !== 409 && status !== 422) return refused(result, message, asked);
  const refusal = key === undefined ? undefined : refusedAttempt(result, message, { ...asked, key });
  return refusal ?? again(result, status === 422);
}

/** Its record must name what was asked for, because the key of a reference is not known before the first answer. */
function pendingOf(answer: Answer, key: string | undefined, asked: AskedPayment): Pending | undefined {
  const payment = key === undefined ? undefined : pendingIn(answer, key);
  if (!payment || key === undefined || !isAbout(payment, asked)) return undefined;
  const { until, action } = payment.pending;
  return { state: 'pending', until, action, retryAfterSeconds: retryAfterMs(answer.headers) / 1000 || undefined, key };
}

/** A gateway may have changed it, and the payment is cancelled all the same. */
function clientIn({ headers }: Answer): string | undefined {
  try {
    return decodeURI(headers.get('idempay-client') ?? '') || undefined;
  } catch {
    return undefined;
  }
}

/** The payment was cancelled after its row was lost, and was charged all the same. */
const CHARGED = 'The payment is cancelled, but the processor charged it.';

/** A refusal that a row of the service gives. Undefined for a 422 that does not say why. */
function finalOf(answer: Answer, message: string, payment: PaymentName, attempts: number): RefusedAttempt | undefined {
  const { status } = answer;
  if (status === 402) return { state: 'final', error: declined(answer, message, payment) };
  if (status === 410 && message.startsWith(CHARGED)) {
    return { state: 'final', error: new DeadKeyError(message, payment, attempts, undefined, detailsOf(answer)) };
  }
  if (status === 410) return { state: 'final', error: new CancelledError(message, payment, detailsOf(answer)) };
  // A 409 that says why is not repeated: it may stay for days.
  if (status === 409 || isComputed(payment.key)) return refusedAttempt(answer, message, payment);
  return { state: 'final', error: new MismatchError(message, payment, detailsOf(answer)) };
}

function declined(answer: Answer, message: string, payment: PaymentName): DeclinedError {
  const told = message.slice(DECLINED.length);
  const [tail, number] = (isComputed(payment.key) && OF_ATTEMPT.exec(told)) || [];
  const attempt = payment.attempt ?? (number === undefined ? undefined : Number(number));
  const reason = tail === undefined ? told : told.slice(0, -tail.length);
  return new DeclinedError(message, reason, { ...payment, attempt }, detailsOf(answer));
}

function refused<Done>(answer: Answer, message: string, { reference }: AskedPayment): PaymentAnswer<Done> {
  const unread = reference === undefined ? undefined : unreadReference(answer, message);
  if (unread) return { state: 'refused', error: unread };
  // A caller that names the reference has its key: to ask again is always right.
  if (reference !== undefined && message === KEY_REFUSED) return again(answer, true);
  const error = refusalOf(answer);
  if (message === KEY_REFUSED) return { state: 'key refused', error };
  return { state: isAboutContent(answer.status, message) ? 'final' : 'refused', error };
}

/** The error if something removed the query with the reference on the way. */
export function unreadReference(answer: Answer, message: string): InvalidRequestError | undefined {
  return message === KEY_MISSING ? new InvalidRequestError(`${UNREAD} ${message}`, detailsOf(answer)) : undefined;
}

const UNREAD =
  "The service did not see 'reference': it is of a version without references, or something in between removed the query.";

/** The answer of an attempt that another one may follow. */
export function again(result: Answer | Lost, mayHaveArrived: boolean) {
  const waitMs = result.state === 'lost' ? 0 : retryAfterMs(result.headers);
  return {
    state: 'again',
    mayHaveArrived,
    retryAfterMs: waitMs,
    isFutile: isFutile(result),
    error: failureOf(result),
  } as const;
}
