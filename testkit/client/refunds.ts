import { Agent } from 'node:http';
import { pause } from '../time/until.js';
import { ask, IDLE_CONNECTION_MS, sendJson, transactionIdOf } from './http-client.js';
import { AGAIN } from './orders.js';
import type { ShownPayment } from './payment-records.js';

const PAUSE_MS = 50;

/** A refund under one name, and all that was answered about it. */
export interface Part {
  readonly name: string;
  readonly amount: string;
  readonly answers: PartAnswer[];
}

export interface PartAnswer {
  readonly status: number;
  readonly text: string;
  readonly transactionId: string | undefined;
  /** The refund's own key, in every answer about its row. */
  readonly key: string | undefined;
  /** `performance.now()` before the request, and after the answer. */
  readonly from: number;
  readonly to: number;
}

export interface ShownRefund extends ShownPayment {
  readonly refund: { readonly payment: string; readonly name: string };
}

/** Every caller has a connection of its own. */
const agent = new Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
const NO_ANSWER = { status: 0, headers: {}, text: '' } as const;

/** One request for one refund of an order; the answer is noted. */
export async function refundPart(url: string, reference: string, part: Part, currency = 'EUR'): Promise<PartAnswer> {
  const { name: refund, amount } = part;
  const from = performance.now();
  const answer = await ask(`${url}/api/refund?${new URLSearchParams({ reference, refund })}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ amount, currency }),
    agent,
  }).catch(() => NO_ANSWER);
  const { status, headers, text } = answer;
  const key = 'idempay-refund-key' in headers ? String(headers['idempay-refund-key']) : undefined;
  const noted = { status, text, transactionId: transactionIdOf(answer), key, from, to: performance.now() };
  part.answers.push(noted);
  return noted;
}

/** Sends the same until there is a clear answer, at one process after the other. Without one it ends when it does not go on. */
export async function settlePart(
  urls: readonly string[],
  reference: string,
  part: Part,
  goesOn: () => boolean = () => true,
): Promise<PartAnswer> {
  for (let turn = 0; ; turn += 1) {
    const answer = await refundPart(urls[turn % urls.length] as string, reference, part);
    const isClear = answer.status !== 202 && !AGAIN.has(answer.status);
    if (isClear || !goesOn()) return answer;
    await pause(PAUSE_MS);
  }
}

export async function refundsOf(url: string, key: string): Promise<ShownRefund[]> {
  return (await ask(`${url}/api/payments/${key}/refunds`)).json<ShownRefund[]>();
}

/** Pays an order, and returns the key of its payment. */
export async function payFor(url: string, reference: string, amount: string, currency = 'EUR'): Promise<string> {
  const paid = await sendJson(`${url}/api/payment?reference=${reference}`, 'POST', { amount, currency });
  if (paid.status !== 200) throw new Error(`a payment was answered with ${paid.status}: ${paid.text}`);
  return String(paid.headers['idempotency-key']);
}

/** The amount in units of the second decimal. */
export const unitsOf = (amount: string): number => Math.round(Number(amount) * 100);
