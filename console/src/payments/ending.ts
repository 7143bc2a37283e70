import { LAST_ATTEMPT } from '@idempay/client';
import type { Access } from '../access/session.js';
import type { Http } from '../http/http.js';
import { foreignAnswer, mayHaveArrived, ServiceError, sentenceOf } from '../http/service-error.js';
import { retryText } from '../parts/duration.js';
import { cancel } from './closing.js';
import type { Payment } from './payment.js';

/** The extent of an ending: the payment with its order, or one attempt, so that another one may follow. */
export type Scope = 'order' | 'attempt';

export interface EndingResult {
  readonly isEnded: boolean;
  /** The result in words, and what can be done now. */
  readonly sentence: string;
}

const AGAIN = 'It may have been ended: end it again, which changes nothing then.';

/** Ending it again is always right, so an answer that was lost is no harm. */
export async function sendEnding(http: Http, payment: Payment, scope: Scope): Promise<EndingResult> {
  const { idempotencyKey: key, reference, attempt, client } = payment;
  // The key is sent with a reference too: if the reference is an order of another client, the service refuses the request.
  const headers = { 'Idempotency-Key': key };
  const query = { reference: reference ?? '', attempt: attempt ?? 1, client, only: 'attempt' };
  try {
    const cancelled = await cancel(http, scope === 'attempt' ? { query, headers } : { headers });
    if (cancelled !== key) throw foreignAnswer(200);
    return { isEnded: true, sentence: endedSentence(payment, scope) };
  } catch (error) {
    return { isEnded: false, sentence: refusalSentence(error) };
  }
}

/**
 * One attempt is ended by its reference only. A caller can name the reference if it is one's own, or if an operator sees its client. A
 * payment that was made with other settings of AUTH is ended by its key, with its order.
 */
export function mayEndAttempt(payment: Payment, { session, may }: Pick<Access, 'session' | 'may'>): boolean {
  if (payment.reference === null) return false;
  const namesClient = session.access === 'required' && may('operations');
  return namesClient === (payment.client !== undefined);
}

function endedSentence({ reference, attempt }: Payment, scope: Scope): string {
  const nothing = 'It charged nothing, and nothing that its payer was given can charge it any more.';
  if (reference === null || attempt === null) return `The payment is ended. ${nothing}`;
  if (scope === 'order') return `Attempt ${attempt} is ended, and the order ${reference} is closed. ${nothing}`;
  const next = attempt === LAST_ATTEMPT ? 'It was the last one.' : `Attempt ${attempt + 1} may follow.`;
  return `Attempt ${attempt} at the order ${reference} is ended. ${nothing} ${next}`;
}

/** Each answer of the service that ends nothing, in words. */
function refusalSentence(error: unknown): string {
  if (error instanceof ServiceError && error.status === 504) {
    return 'The processor gave no clear answer, so it is not known yet if the payment is ended. Idempay asks the processor for that again by itself, and sends no charge meanwhile. You can also end it again.';
  }
  if (mayHaveArrived(error)) return `${sentenceOf(error)} ${AGAIN}`;
  if (!(error instanceof ServiceError)) return sentenceOf(error);
  const { status, message, headers } = error;
  switch (headers.get('idempay-attempt-state')) {
    case 'completed':
      return `It was paid meanwhile, so nothing was ended. ${message}`;
    case 'declined':
      return `It was declined meanwhile, so nothing was ended. ${message}`;
    case 'cannot-be-ended':
      return `It cannot be ended at the processor now, so it goes on as before, and its outcome will come. Try again${retryText(headers)}.`;
    case null:
      if (status === 409)
        return `Somebody works on it at this moment, so nothing was ended. End it again${retryText(headers)}.`;
  }
  return message;
}
