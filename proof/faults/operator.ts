import type { PaymentClients } from '../../testkit/client/payment-clients.js';
import { type History, PROMISED_ANSWERS, type Reply } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import { lookUpCharge, type ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import { LEASE_MS } from './environment.js';

/**
 * By then nothing of a payment's charge is on its way any more: it was sent within a lease, and no connection or process is
 * held up for longer than the rest.
 */
export const OPERATOR_AFTER_MS = LEASE_MS + 8_000;
const WIDTH = 4;
const LOOK_EVERY_MS = 100;
const REASON = 'insufficient funds';

/**
 * Resolves what a processor that does not deduplicate leaves unknown for ever: asks the processor itself, and where that has
 * no record, after long enough, declines the payment.
 */
export class Operator {
  /** Keys that were declined, or may have been. */
  readonly verdicts = new Set<string>();
  /** When to look at a key again: its age is not known before the first look. */
  readonly #notBefore = new Map<string, number>();

  constructor(
    private readonly history: History,
    private readonly processor: ReferenceProcessor,
    private readonly payments: PaymentClients,
    private readonly random: Random,
  ) {}

  async run(stop: AbortSignal): Promise<void> {
    await Promise.all(Array.from({ length: WIDTH }, () => this.#work(stop)));
  }

  async #work(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const now = performance.now();
      const due = this.payments.openKeys.filter(({ key, issuedAt }) => {
        return now >= (this.#notBefore.get(key) ?? issuedAt + OPERATOR_AFTER_MS);
      });
      if (due.length === 0) await pause(LOOK_EVERY_MS);
      else await this.#lookAt(this.random.pick(due));
    }
  }

  async #lookAt({ key }: KeyHistory): Promise<void> {
    this.#notBefore.set(key, performance.now() + LEASE_MS);
    const { status, text } = await this.#send(`/api/payments/${key}`);
    if (status !== 200) return;
    const { state, claimedAt } = JSON.parse(text) as { state: string; claimedAt: string | null };
    if (state !== 'PROCESSING' || claimedAt === null) return;
    const ageMs = Date.now() - Date.parse(claimedAt);
    if (ageMs < OPERATOR_AFTER_MS) {
      this.#notBefore.set(key, performance.now() + OPERATOR_AFTER_MS - ageMs);
      return;
    }
    const record = await lookUpCharge(this.processor.url, key).catch(() => undefined);
    // What it knows the service finds out by itself.
    if (record?.status === 404) await this.#decline(key);
  }

  async #decline(key: string): Promise<void> {
    this.verdicts.add(key);
    const body = JSON.stringify({ outcome: 'declined', reason: REASON });
    const { status, text } = await this.#send(`/api/payments/${key}/resolution`, body);
    // 409: an attempt is under way, or it is final meanwhile.
    if ([0, 200, 409, 503].includes(status)) return;
    this.history.violated(PROMISED_ANSWERS, key, `the verdict was answered ${status} ${text}`);
  }

  #send(path: string, body?: string): Promise<Reply> {
    const request = body === undefined ? {} : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body };
    return this.history.send(this.history.choose(this.random.fraction()), path, request);
  }
}
