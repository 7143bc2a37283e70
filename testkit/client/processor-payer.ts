import type { Agent } from 'node:http';
import { answered, begun, type KeyHistory } from '../history/payments.js';
import { until } from '../time/until.js';
import { type Answer, ask, generateKey, pay } from './http-client.js';
import { type ShownPayment, shownPaymentOf } from './payment-records.js';

/** Takeovers come after a second, then recovery looks every three; a loaded machine may take several times that. */
const FINAL_DEADLINE_MS = 20_000;

type Money = Pick<KeyHistory, 'amount' | 'currency'>;

/** A payer whose every request a test sends and reads by itself; the history is for `expectChargedOnce`. */
export class Payer {
  readonly #keys = new Map<string, KeyHistory>();

  get keys(): readonly KeyHistory[] {
    return [...this.#keys.values()];
  }

  /** A fresh key for an amount that no other key of this payer has. */
  async newKey(url: string): Promise<string> {
    const issuedAt = performance.now();
    const key = await generateKey(url);
    const money = { amount: `${100 + this.#keys.size}.50`, currency: 'USD' };
    this.#keys.set(key, { key, ...money, issuedAt, receivedAt: performance.now(), exchanges: [] });
    return key;
  }

  /** Sends the payment as it was meant, or, as an impatient client's mistake, with another body. */
  async pay(url: string, key: string, body?: Money, agent?: Agent): Promise<Answer> {
    const history = this.#keys.get(key);
    if (!history) throw new Error(`${key} is not a key of this payer`);
    const { amount, currency } = body ?? history;
    const exchange = begun(history, 'pay', url);
    const none = { status: 0, headers: {}, text: '', failure: 'cut' } as const;
    const paying = pay(url, key, { amount, currency }, agent && { agent });
    answered(exchange, { ...(await paying.catch(() => none)), endedAt: performance.now() });
    return paying;
  }

  /** Repeats for as long as it meets an attempt of recovery (409), as a client is told to. */
  repeat(url: string, key: string, body?: Money, refusals: readonly number[] = [409]): Promise<Answer> {
    return until(`a repeat that is not answered ${refusals.join(', ')}`, FINAL_DEADLINE_MS, async () => {
      const answer = await this.pay(url, key, body);
      return !refusals.includes(answer.status) && answer;
    });
  }

  untilFinal(url: string, key: string): Promise<Answer> {
    return this.repeat(url, key, undefined, [409, 503, 504]);
  }
}

/** The payment as the service shows it; undefined when it knows none of that key. */
export async function findPayment(url: string, key: string): Promise<ShownPayment | undefined> {
  const { status } = await ask(`${url}/api/payments/${key}`);
  return status === 404 ? undefined : shownPaymentOf(url, key);
}

/** Sends nothing: whatever finishes the payment, it is not a repeat. */
export function untilFinished(url: string, key: string): Promise<ShownPayment> {
  return until(`${key} to be finished without a repeat`, FINAL_DEADLINE_MS, async () => {
    const payment = await findPayment(url, key);
    return payment?.state !== 'PROCESSING' && payment;
  });
}
