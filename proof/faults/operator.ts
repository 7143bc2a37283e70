import type { KeptPayment, KeyHistory } from '../../testkit/checkers/payment-evidence.js';
import type { ClientLog } from '../../testkit/history/client-log.js';
import { lookUpCharge, type ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import { LEASE_MS } from './scene.js';

/**
 * By then nothing of a payment's charge is on its way any more: it was sent within a lease, and no wire or process is held
 * up for longer than the rest.
 */
export const OPERATOR_AFTER_MS = LEASE_MS + 8_000;
const WIDTH = 4;
const LOOK_EVERY_MS = 100;
const REASON = 'insufficient funds';

/**
 * Whoever resolves what a processor that does not deduplicate leaves unknown for ever: it asks the processor itself, and where
 * that has no record, after long enough, the payment is declined.
 */
export class Operator {
  /** Keys that were declined, or may have been. */
  readonly verdicts = new Set<string>();
  /** When to look at a key again: its age is not known before the first look. */
  readonly #notBefore = new Map<string, number>();

  constructor(
    private readonly log: ClientLog,
    private readonly processor: ReferenceProcessor,
    private readonly openKeys: () => readonly KeyHistory[],
    private readonly random: Random,
  ) {}

  async run(stop: AbortSignal): Promise<void> {
    await Promise.all(Array.from({ length: WIDTH }, () => this.#work(stop)));
  }

  async #work(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const now = performance.now();
      const due = this.openKeys().filter(({ key, issuedAt }) => {
        return now >= (this.#notBefore.get(key) ?? issuedAt + OPERATOR_AFTER_MS);
      });
      if (due.length === 0) await pause(LOOK_EVERY_MS);
      else await this.#lookAt(this.random.pick(due));
    }
  }

  async #lookAt({ key }: KeyHistory): Promise<void> {
    this.#notBefore.set(key, performance.now() + LEASE_MS);
    const path = `/api/payments/${key}`;
    const { answer } = await this.log.send(this.log.choose(this.random.fraction()), { method: 'GET', path });
    if (answer.status !== 200) return;
    const { state, claimedAt } = JSON.parse(answer.text) as KeptPayment & { readonly claimedAt: string | null };
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
    const { answer } = await this.log.send(this.log.choose(this.random.fraction()), {
      method: 'POST',
      path: `/api/payments/${key}/resolution`,
      body: JSON.stringify({ outcome: 'declined', reason: REASON }),
    });
    // 409: somebody is at work on it, or it is final meanwhile.
    if ([0, 200, 409, 503].includes(answer.status)) return;
    const what = `the verdict was answered ${answer.status} ${answer.text}`;
    this.log.violated('every answer is one that was promised', key, what);
  }
}
