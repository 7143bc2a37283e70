import type { Ask, Http } from '../http/http.js';
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

/** Closing again is always right, so an answer that was lost is no harm. */
export async function sendClosing(http: Http, closing: Closing): Promise<ClosingResult> {
  try {
    const key = await cancel(
      http,
      isOrder(closing) ? { query: { ...closing } } : { headers: { 'Idempotency-Key': closing.key } },
    );
    return { isClosed: true, key };
  } catch (error) {
    const unknown = mayHaveArrived(error)
      ? ' It may have been closed: close it again, which changes nothing then.'
      : '';
    return { isClosed: false, sentence: `${sentenceOf(error)}${unknown}` };
  }
}

const CANCELLED = 'Payment cancelled.';

/** Returns the key of the cancelled payment. Throws unless the service itself says that it is cancelled. */
export async function cancel(http: Http, named: Pick<Ask, 'query' | 'headers'>): Promise<string> {
  const { status, headers, body } = await http.ask<unknown>('api/payment-cancellation', { method: 'POST', ...named });
  const key = headers.get('idempotency-key') ?? named.headers?.['Idempotency-Key'] ?? '';
  if (body !== CANCELLED || !isWholeKey(key)) throw foreignAnswer(status);
  return key;
}
