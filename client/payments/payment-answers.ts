import { DeclinedError, type IdempayError, MismatchError, type UnavailableError } from '../errors.js';
import { detailsOf, failureOf, isAboutContent, isMomentary, refusalOf, retryAfterMs } from '../http/answers.js';
import { jsonOf } from '../http/forms.js';
import { provenMessageOf } from '../http/proof.js';
import type { Answer, Lost } from '../http/transport.js';

/** What one attempt at a payment says. */
export type PaymentAnswer =
  | { readonly state: 'paid'; readonly transactionId: string; readonly replayed: boolean }
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
      readonly error: UnavailableError;
    };

/** Spec 2.4. The text says whether it is a repeat: a browser may not show the header. */
const PAID = /^(Payment processed successfully with )?Transaction ID: (TXN\d+)$/;
/** Spec 7, word for word: only this 400 is about the key. */
const KEY_REFUSED = 'Invalid or missing Idempotency-Key.';
const DECLINED = 'Payment declined: ';

/** Only what is surely the service's own answer is believed (rule P23): everything else may mean a charge. */
export function readPaymentAnswer(result: Answer | Lost, key: string): PaymentAnswer {
  if (result.state === 'lost') return again(result, result.mayHaveArrived);
  const sentence = jsonOf(result);
  const [, first, transactionId] = (typeof sentence === 'string' && PAID.exec(sentence)) || [];
  if (transactionId !== undefined) return { state: 'paid', transactionId, replayed: first === undefined };

  const { status } = result;
  const message = provenMessageOf(result);
  if (message === undefined) return again(result, true);
  // A rate limit is checked before everything else.
  if (status === 429) return again(result, false);
  if (status === 409 || isMomentary(status)) return again(result, true);

  const details = detailsOf(result);
  if (status === 402) {
    return { state: 'final', error: new DeclinedError(message, message.slice(DECLINED.length), key, details) };
  }
  if (status === 422) return { state: 'final', error: new MismatchError(message, key, details) };
  const error = refusalOf(result);
  if (message === KEY_REFUSED) return { state: 'key refused', error };
  return { state: isAboutContent(status, message) ? 'final' : 'refused', error };
}

function again(result: Answer | Lost, mayHaveArrived: boolean): PaymentAnswer {
  const waitMs = result.state === 'lost' ? 0 : retryAfterMs(result.headers);
  return { state: 'again', mayHaveArrived, retryAfterMs: waitMs, error: failureOf(result) };
}
