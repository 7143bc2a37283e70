import { Agent } from 'node:http';
import { ask } from '../../testkit/client/http-client.js';
import { inParallel } from '../../testkit/concurrency.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import type { Peer } from './peers.js';

/** A request without an answer for this long hangs. */
const HANG_MS = 10_000;
const ISSUED_AT_ONCE = 20;
/** How often a client sends a payment before it leaves it for the end. */
export const SENDS = 6;
export const PAUSE_MS = 120;
/** At the end everything is up, and a payment without an outcome is repeated for this long. */
export const PATIENCE_MS = 60_000;
export const REPEAT_EVERY_MS = 2_000;

export const SCENARIOS = ['duplicates', 'crash', 'lost reply', 'Redis down', 'FLUSHALL', 'other body'] as const;
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
    private readonly random: Random,
  ) {}

  now(): number {
    return performance.now() - this.#startedAt;
  }

  /** Those that were sent and have no outcome yet. */
  get open(): readonly Payment[] {
    return this.payments.filter((payment) => payment.answers.length > 0 && !isSettled(payment));
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

  /** To some server, unless one is named. Resolves with the answer, or after HANG_MS without one. */
  async send({ key, money, answers }: Payment, to = this.random.pick(this.servers), body = money): Promise<void> {
    const sentAtMs = this.now();
    const record = (status: PaymentAnswer['status'], receipt?: string) => {
      answers.push({ status, receipt, sentAtMs, tookMs: this.now() - sentAtMs });
    };
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const request = { method: 'POST', headers, body: JSON.stringify(body), agent: this.#agent };
    const answered = ask(`${to.url}${this.peer.path}`, request)
      .then((answer) => record(answer.status, isSuccess(answer) ? this.peer.receiptOf(answer) : undefined))
      .catch(() => record('cut'));
    const hang = pause(HANG_MS).then(() => 'hang' as const);
    if ((await Promise.race([answered, hang])) === 'hang') record('hang');
  }

  async sendEach(payments: readonly Payment[]): Promise<void> {
    await Promise.all(payments.map((payment) => this.send(payment)));
  }

  /** Sends it until it has an outcome, each time to some process, but not for ever. */
  async payPatiently(payment: Payment): Promise<void> {
    for (let send = 0; send < SENDS && !isSettled(payment); send += 1) {
      if (send > 0) await pause(PAUSE_MS);
      await this.send(payment);
    }
  }

  /** Repeats what has no outcome until it has one, at most for PATIENCE_MS. */
  async untilSettled(): Promise<void> {
    const end = this.now() + PATIENCE_MS;
    const repeat = async (payment: Payment) => {
      await pause(this.random.below(REPEAT_EVERY_MS));
      while (!isSettled(payment) && this.now() < end) {
        await this.send(payment);
        if (!isSettled(payment)) await pause(REPEAT_EVERY_MS);
      }
    };
    await Promise.all(this.open.map(repeat));
  }

  close(): void {
    this.#agent.destroy();
  }
}

export const isSuccess = ({ status }: Pick<PaymentAnswer, 'status'>) =>
  typeof status === 'number' && status >= 200 && status <= 299;

/** 4xx but for those that say "later". */
export const isRefusal = ({ status }: Pick<PaymentAnswer, 'status'>) =>
  typeof status === 'number' && status >= 400 && status <= 499 && ![408, 409, 425, 429].includes(status);

/** An answer that a client does not repeat: success, a decline, or a refusal. */
export const isSettled = ({ answers }: Payment) => answers.some((answer) => isSuccess(answer) || isRefusal(answer));
