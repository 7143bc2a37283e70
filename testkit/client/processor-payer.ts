import type { Agent } from 'node:http';
import { until } from '../time/until.js';
import { type Answer, ask, generateKey, pay } from './http-client.js';

/** Takeovers come after a second, then recovery looks every three; a loaded machine may take several times that. */
const FINAL_DEADLINE_MS = 20_000;

export interface PaymentBody {
  readonly amount: string;
  readonly currency: string;
}

/** One key, what its first request was to pay, and every answer that came back. */
export interface PayersView {
  readonly key: string;
  readonly money: PaymentBody;
  readonly answers: readonly Answer[];
}

/** What `GET /api/payments/{key}` shows. */
export interface ShownPayment extends PaymentBody {
  readonly state: 'PENDING' | 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly transactionId: string | null;
  readonly processor: string | null;
  readonly attempts: number;
  readonly reason: string | null;
  readonly resolution: string | null;
}

/** A payer who forgets nothing: what was asked and what was told is compared with the processor's log afterwards. */
export class Payer {
  private readonly views = new Map<string, { key: string; money: PaymentBody; answers: Answer[] }>();

  get payments(): readonly PayersView[] {
    return [...this.views.values()];
  }

  /** A fresh key for an amount that no other key of this payer has. */
  async newKey(url: string): Promise<string> {
    const key = await generateKey(url);
    const money = { amount: `${100 + this.views.size}.50`, currency: 'USD' };
    this.views.set(key, { key, money, answers: [] });
    return key;
  }

  /** Sends the payment as it was meant, or, as an impatient client's mistake, with another body. */
  async pay(url: string, key: string, body?: PaymentBody, agent?: Agent): Promise<Answer> {
    const view = this.views.get(key);
    if (!view) throw new Error(`${key} is not a key of this payer`);
    const answer = await pay(url, key, body ?? view.money, agent && { agent });
    view.answers.push(answer);
    return answer;
  }

  /** Repeats for as long as it meets an attempt of recovery (409), as a client is told to. */
  repeat(url: string, key: string, body?: PaymentBody): Promise<Answer> {
    return until('a repeat that does not meet an attempt under way', FINAL_DEADLINE_MS, async () => {
      const answer = await this.pay(url, key, body);
      return answer.status !== 409 && answer;
    });
  }

  /** Repeats until the outcome is told. */
  untilFinal(url: string, key: string): Promise<Answer> {
    return until('a repeat that is told the outcome', FINAL_DEADLINE_MS, async () => {
      const answer = await this.pay(url, key);
      return ![409, 503, 504].includes(answer.status) && answer;
    });
  }
}

/** The payment as the service shows it; undefined when it knows none of that key. */
export async function shownPayment(url: string, key: string): Promise<ShownPayment | undefined> {
  const answer = await ask(`${url}/api/payments/${key}`);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw new Error(`GET /api/payments/${key} answered ${answer.status}: ${answer.text}`);
  return answer.json<ShownPayment>();
}

/** Sends nothing: whatever finishes the payment, it is not a repeat. */
export function untilFinished(url: string, key: string): Promise<ShownPayment> {
  return until(`${key} to be finished without a repeat`, FINAL_DEADLINE_MS, async () => {
    const payment = await shownPayment(url, key);
    return payment?.state !== 'PROCESSING' && payment;
  });
}
