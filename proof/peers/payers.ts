import { Agent } from 'node:http';
import { ask } from '../../testkit/client/http-client.js';
import { inParallel } from '../../testkit/concurrency.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Peer } from './peer.js';

/** A request without an answer for so long hangs. */
export const HANG_MS = 10_000;
const ISSUED_AT_ONCE = 20;

export const SCENARIOS = ['duplicates', 'crash', 'lost reply', 'Redis away', 'FLUSHALL', 'other body'] as const;
export type Scenario = (typeof SCENARIOS)[number];

export interface PaymentAnswer {
  /** 'cut': the connection broke; 'hang': no answer within HANG_MS (one may still come and is added then). */
  readonly status: number | 'cut' | 'hang';
  readonly receipt: string | undefined;
  /** Since the trial began. */
  readonly sentAtMs: number;
  readonly tookMs: number;
}

export interface Payment {
  readonly key: string;
  readonly money: { readonly amount: string; readonly currency: string };
  /** A later scenario may take a paid one up again. */
  scenario: Scenario;
  readonly answers: PaymentAnswer[];
}

/** The clients of one trial, with all answers that they got. */
export class Payers {
  readonly payments: Payment[] = [];
  readonly #agent = new Agent({ keepAlive: true, timeout: 1_000 });
  readonly #startedAt = performance.now();

  constructor(
    private readonly peer: Peer,
    private readonly servers: readonly SupervisedService[],
  ) {}

  now(): number {
    return performance.now() - this.#startedAt;
  }

  /** New payments, each with a key and an amount of its own; nothing is sent for them yet. */
  issue(scenario: Scenario, count: number): Promise<Payment[]> {
    return inParallel(count, ISSUED_AT_ONCE, async () => {
      const key = await this.peer.newKey(this.servers[0]?.url ?? '');
      const money = { amount: `${100 + this.payments.length}.50`, currency: 'USD' };
      const payment: Payment = { key, money, scenario, answers: [] };
      this.payments.push(payment);
      return payment;
    });
  }

  /** Resolves with the answer, or after HANG_MS without one. */
  async send({ key, answers, ...payment }: Payment, { url }: SupervisedService, money = payment.money): Promise<void> {
    const sentAtMs = this.now();
    const record = (status: PaymentAnswer['status'], receipt?: string) => {
      answers.push({ status, receipt, sentAtMs, tookMs: this.now() - sentAtMs });
    };
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const request = { method: 'POST', headers, body: JSON.stringify(money), agent: this.#agent };
    await new Promise<void>((resolve) => {
      const hang = setTimeout(() => {
        record('hang');
        resolve();
      }, HANG_MS);
      ask(`${url}${this.peer.path}`, request)
        .then((answer) => record(answer.status, isSuccess(answer) ? this.peer.receiptOf(answer) : undefined))
        .catch(() => record('cut'))
        .finally(() => {
          clearTimeout(hang);
          resolve();
        });
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

export function isSuccess({ status }: Pick<PaymentAnswer, 'status'>): boolean {
  return typeof status === 'number' && status >= 200 && status <= 299;
}

/** An answer that a client does not repeat: success, a decline, or a refusal. */
export function isSettled({ answers }: Payment): boolean {
  return answers.some((answer) => isSuccess(answer) || isRefusal(answer));
}

/** 4xx but for those that say "later". */
export function isRefusal({ status }: Pick<PaymentAnswer, 'status'>): boolean {
  return typeof status === 'number' && status >= 400 && status <= 499 && ![408, 409, 425, 429].includes(status);
}
