import { DeclinedError, type IdempayError, MismatchError, type UnavailableError } from '../errors.js';
import {
  detailsOf,
  failureOf,
  isAboutContent,
  isMomentary,
  messageOf,
  parsed,
  refusalOf,
  retryAfterMs,
} from '../http/answers.js';
import type { Answer, Lost } from '../http/transport.js';

/** What one attempt at a payment says. */
export type PaymentAnswer =
  | { readonly state: 'paid'; readonly transactionId: string; readonly replayed: boolean }
  /** Final for the payment, or for this content, which no attempt can have paid. */
  | { readonly state: 'final'; readonly error: IdempayError }
  /** The service does not know the key, or not any more. */
  | { readonly state: 'key refused'; readonly error: IdempayError }
  /** This attempt did nothing, and another one would do nothing either. It says nothing about the attempts before. */
  | { readonly state: 'refused'; readonly error: IdempayError }
  | {
      readonly state: 'again';
      /** False: this attempt surely began nothing. */
      readonly mayHaveArrived: boolean;
      readonly retryAfterMs: number;
      readonly error: UnavailableError;
    };

/** Spec 2.4. The text says whether it is a repeat: a browser may not show the header. */
const PAID = /^(Payment processed successfully with )?Transaction ID: (TXN\d+)$/;
/** Spec 7, word for word: only this 400 is about the key. */
const KEY_REFUSED = 'Invalid or missing Idempotency-Key.';
const DECLINED = 'Payment declined: ';

/** Reads an answer pessimistically: anything that is not surely the service's own answer may mean a charge. */
export function readPaymentAnswer(result: Answer | Lost, key: string): PaymentAnswer {
  if (result.state === 'lost') return again(result, result.mayHaveArrived);
  const { status, text } = result;
  if (status === 200) {
    const sentence = parsed(text);
    const [, first, transactionId] = (typeof sentence === 'string' && PAID.exec(sentence)) || [];
    return transactionId === undefined
      ? again(result, true)
      : { state: 'paid', transactionId, replayed: first === undefined };
  }
  // A rate limit is checked before everything else, in the service and in proxies.
  if (status === 429) return again(result, false);
  if (status === 409 || isMomentary(status)) return again(result, true);

  const message = messageOf(result);
  const details = detailsOf(result);
  if (status === 402) {
    if (!message?.startsWith(DECLINED)) return again(result, true);
    return { state: 'final', error: new DeclinedError(message, message.slice(DECLINED.length), key, details) };
  }
  if (status === 422) {
    if (message === undefined) return again(result, true);
    return { state: 'final', error: new MismatchError(message, key, details) };
  }
  const error = refusalOf(result);
  if (status === 400 && message === KEY_REFUSED) return { state: 'key refused', error };
  return { state: isAboutContent(result) ? 'final' : 'refused', error };
}

function again(result: Answer | Lost, mayHaveArrived: boolean): PaymentAnswer {
  const waitMs = result.state === 'lost' ? 0 : retryAfterMs(result.headers);
  return { state: 'again', mayHaveArrived, retryAfterMs: waitMs, error: failureOf(result) };
}
