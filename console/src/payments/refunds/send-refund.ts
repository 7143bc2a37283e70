import { isObject } from '@idempay/client/proof';
import type { Http } from '../../http/http.js';
import { foreignAnswer, mayHaveArrived, ServiceError, sentenceOf } from '../../http/service-error.js';
import { retryText } from '../../parts/duration.js';
import { amountText } from '../../parts/numbers.js';
import type { Payment } from '../payment.js';
import type { Refund } from './refund.js';

/** A refund as a person asks for it; the service judges it. */
export interface RefundRequest {
  readonly name: string;
  readonly amount: string;
  /** Empty: none. */
  readonly reason: string;
}

export type RefundResult =
  /** The money was given back, or the processor has accepted that and takes time. */
  | { readonly kind: 'made'; readonly sentence: string }
  /** Nothing was given back, neither by this request nor by one before it with the same name. */
  | { readonly kind: 'refused'; readonly sentence: string }
  /** It is not known yet: only the same name and amount may be sent again. */
  | { readonly kind: 'unclear'; readonly sentence: string };

const GIVEN_BACK = /^(?:Refund processed successfully with )?Transaction ID: (TXN\d+)$/;
const UNKNOWN =
  'The processor gave no clear answer, so it is not known yet if the money was given back. Idempay asks the processor by itself until it is known. You can also send it again with the same name and amount: nothing is given back twice. Another name would be another refund.';
const DECLINED = 'This is final. Ask the processor, or give the money back in another way.';
const AGAIN = 'Send it again with the same name and amount: nothing is given back twice.';
/**
 * The beginnings of the sentences with which the refund route refuses a refund that has no row; @idempay/client reads them too. A refusal
 * about the amount or the name begins with the member.
 */
const NOTHING_GIVEN_BACK =
  /^(?:The payment has \S+ [A-Z]{3} left |The payment was made in [A-Z]{3}, |The payment is [A-Z]+, so there is nothing to give back\.|The payment was charged by the processor |The record of the payment is about to be removed, |The adapter of the processor does not know refunds |No payment found that could be refunded\.|'\w+' )/;

/**
 * Sending it again with the same name is always right, so an answer that was lost is no harm. `mayBeMade`: an earlier request with this name
 * may have made it, so only an answer about this refund can be clear.
 */
export async function sendRefund(
  http: Http,
  payment: Payment,
  request: RefundRequest,
  mayBeMade: boolean,
): Promise<RefundResult> {
  const { name, amount, reason } = request;
  const { idempotencyKey: key, currency } = payment;
  try {
    const { status, headers, body } = await http.ask<unknown>('api/refund', {
      method: 'POST',
      query: { refund: name },
      headers: { 'Idempotency-Key': key },
      json: { amount, currency, ...(reason !== '' && { reason }) },
    });
    const sum = `${amountText(amount)} ${currency}`;
    if (status === 202 && isPendingRefund(body, key, name))
      return { kind: 'made', sentence: pendingSentence(sum, name) };
    const [, transactionId] = (status === 200 && typeof body === 'string' && GIVEN_BACK.exec(body)) || [];
    if (transactionId === undefined) throw foreignAnswer(status);
    const isRepeat = headers.get('idempotent-replayed') === 'true';
    return { kind: 'made', sentence: madeSentence(sum, name, transactionId, isRepeat) };
  } catch (error) {
    return refusalOf(error, mayBeMade);
  }
}

function isPendingRefund(body: unknown, key: string, name: string): boolean {
  if (!isObject(body) || body.state !== 'PROCESSING' || !isObject(body.refund)) return false;
  return body.refund.payment === key && body.refund.name === name;
}

const madeSentence = (sum: string, name: string, transactionId: string, isRepeat: boolean) =>
  isRepeat
    ? `${sum} had been given back as ${name} before, and nothing was given back again. Transaction ID: ${transactionId}`
    : `${sum} was given back as ${name}. Transaction ID: ${transactionId}`;

const pendingSentence = (sum: string, name: string) =>
  `The processor has accepted the refund ${name} of ${sum}, and takes time. Idempay asks for its outcome by itself, and the refund shows it below.`;

/** The outcome of a refund that ended while nobody had an answer to its request. */
export function outcomeSentence({ state, amount, currency, transactionId, refund: { name } }: Refund): string {
  const sum = `${amountText(amount ?? '')} ${currency}`;
  if (state === 'COMPLETED') return madeSentence(sum, name, transactionId ?? '', false);
  return `The refund ${name} of ${sum} was declined, so its amount is left again.`;
}

/** Each answer that gives nothing back, in words. */
function refusalOf(error: unknown, mayBeMade: boolean): RefundResult {
  if (!(error instanceof ServiceError)) return { kind: 'unclear', sentence: `${sentenceOf(error)} ${AGAIN}` };
  const { status, message, headers, isProven } = error;
  // An answer about a refund that was begun names its key.
  const isBegun = headers.has('idempay-refund-key');
  const isRefusal = isProven && (isBegun || NOTHING_GIVEN_BACK.test(message));
  if (status === 504) return { kind: 'unclear', sentence: UNKNOWN };
  if (status === 501 && isRefusal) return { kind: 'refused', sentence: message };
  if (mayHaveArrived(error)) return { kind: 'unclear', sentence: `${message} ${AGAIN}` };
  if (status === 409 && isBegun) {
    return {
      kind: 'unclear',
      sentence: `It is being made at this moment. Send it again${retryText(headers)}, with the same name and amount.`,
    };
  }
  // A limit of requests, or a missing scope, is found before the refund is looked up.
  if (mayBeMade && !isRefusal) return { kind: 'unclear', sentence: `${message} ${AGAIN}` };
  return { kind: 'refused', sentence: status === 402 ? `${message} ${DECLINED}` : message };
}
