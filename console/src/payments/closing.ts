import type { Http } from '../http/http.js';
import { foreignAnswer, mayHaveArrived, sentenceOf } from '../http/service-error.js';
import { isWholeKey } from './payment.js';

/** The target of a closing: a payment by its key, or an attempt at an order. */
export type Closing = { readonly key: string } | Order;

/** As an operator types it; the service judges it. */
export interface Order {
  readonly reference: string;
  readonly attempt: string;
  /** The client that has the order; empty: one's own, or everybody's if there are no clients. */
  readonly client: string;
}

export const isOrder = (closing: Closing): closing is Order => 'reference' in closing;

export type ClosingResult =
  | { readonly isClosed: true; readonly key: string }
  | { readonly isClosed: false; readonly sentence: string };

const CLOSED = 'Payment cancelled.';

/** Closing again is always right, so an answer that was lost is no harm. */
export async function sendClosing(http: Http, closing: Closing): Promise<ClosingResult> {
  try {
    const { status, headers, body } = await http.ask<unknown>('api/payment-cancellation', {
      method: 'POST',
      ...(isOrder(closing) ? { query: { ...closing } } : { headers: { 'Idempotency-Key': closing.key } }),
    });
    const key = isOrder(closing) ? (headers.get('idempotency-key') ?? '') : closing.key;
    if (body !== CLOSED || !isWholeKey(key)) throw foreignAnswer(status);
    return { isClosed: true, key };
  } catch (error) {
    const unknown = mayHaveArrived(error)
      ? ' It may have been closed: close it again, which changes nothing then.'
      : '';
    return { isClosed: false, sentence: `${sentenceOf(error)}${unknown}` };
  }
}
