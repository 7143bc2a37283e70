import { Agent } from 'node:http';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { inParallel } from '../../testkit/concurrency.js';
import type { Peer } from './peer.js';
import type { ServerProcess } from './server-process.js';

/** A request without an answer for so long hangs. */
export const HANG_MS = 10_000;
const ISSUED_AT_ONCE = 20;

export type Scene = 'duplicates' | 'crash' | 'lost reply' | 'Redis away' | 'FLUSHALL' | 'other body';

export interface Told {
  /** 'cut': the connection broke; 'hang': no answer within HANG_MS (one may still come, as another of the payment's). */
  readonly status: number | 'cut' | 'hang';
  readonly text: string;
  readonly receipt?: string | undefined;
  /** Since the trial began. */
  readonly sentAtMs: number;
  readonly tookMs: number;
}

export interface Payment {
  readonly key: string;
  readonly money: { readonly amount: string; readonly currency: string };
  /** What it went through; a later scene may take a paid one up again. */
  scene: Scene;
  readonly told: Told[];
}

/** The clients of one trial, and all that they were told. */
export class Payers {
  readonly payments: Payment[] = [];
  readonly #agent = new Agent({ keepAlive: true, timeout: 1_000 });
  readonly #startedAt = performance.now();

  constructor(
    private readonly peer: Peer,
    private readonly servers: readonly ServerProcess[],
  ) {}

  now(): number {
    return performance.now() - this.#startedAt;
  }

  /** New payments, each with a key and an amount of its own; nothing is sent for them yet. */
  issue(scene: Scene, count: number): Promise<Payment[]> {
    return inParallel(count, ISSUED_AT_ONCE, async () => {
      const key = await this.peer.newKey(this.servers[0]?.url ?? '');
      const money = { amount: `${100 + this.payments.length}.50`, currency: 'USD' };
      const payment: Payment = { key, money, scene, told: [] };
      this.payments.push(payment);
      return payment;
    });
  }

  /** Resolves with the answer, or after HANG_MS without one. */
  async send(payment: Payment, server: ServerProcess, money = payment.money): Promise<Told> {
    const sentAtMs = this.now();
    const record = (told: Pick<Told, 'status' | 'text' | 'receipt'>): Told => {
      const whole = { ...told, sentAtMs, tookMs: this.now() - sentAtMs };
      payment.told.push(whole);
      return whole;
    };
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<Told>((resolve) => {
      timer = setTimeout(() => resolve(record({ status: 'hang', text: '' })), HANG_MS);
    });
    const answer = this.#post(payment.key, server, money).then(
      (given) => record({ status: given.status, text: given.text, receipt: this.#receiptOf(given) }),
      (error: Error) => record({ status: 'cut', text: error.message }),
    );
    const told = await Promise.race([answer, patience]);
    clearTimeout(timer);
    return told;
  }

  close(): void {
    this.#agent.destroy();
  }

  #post(key: string, server: ServerProcess, money: Payment['money']): Promise<Answer> {
    return ask(`${server.url}${this.peer.path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
      body: JSON.stringify(money),
      agent: this.#agent,
    });
  }

  #receiptOf(answer: Answer): string | undefined {
    return isSuccess(answer.status) ? this.peer.receiptOf(answer) : undefined;
  }
}

export function isSuccess(status: Told['status']): boolean {
  return typeof status === 'number' && status >= 200 && status <= 299;
}

/** Told something that a client does not repeat: success, a decline, or a refusal. */
export function isSettled({ told }: Payment): boolean {
  return told.some(({ status }) => isSuccess(status) || isRefusal(status));
}

/** 4xx but for those that say "later". */
export function isRefusal(status: Told['status']): boolean {
  return typeof status === 'number' && status >= 400 && status <= 499 && ![408, 409, 425, 429].includes(status);
}
