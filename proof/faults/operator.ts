import { Agent } from 'node:http';
import type { Ask } from '../../testkit/client/http-client.js';
import type { PaymentClients } from '../../testkit/client/payment-clients.js';
import type { History, Reply } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import { lookUpCharge, type ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Random } from '../../testkit/random.js';
import { patience } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';
import { LEASE_MS, PROCESSOR_TIMEOUT_MS } from './fault.js';

/** After this time no charge of a payment is still to be sent: it is sent within a lease, and no process is stopped for longer than the rest. */
export const OPERATOR_AFTER_MS = LEASE_MS + 8_000;
/** A charge that has arrived is made within this time: the slowest takes two time-outs, and a busy machine adds the rest. */
export const chargedAfterMs = () => 2 * PROCESSOR_TIMEOUT_MS + patience(3_000);
const WIDTH = 16;
const LOOK_EVERY_MS = 100;

/**
 * Resolves payments that a processor without deduplication leaves unknown for ever: asks the processor itself, and if that has no record,
 * after long enough, declines the payment.
 */
export class Operator {
  /** Keys that were declined, or may have been. */
  readonly verdicts = new Set<string>();
  /** When to look at a key again: its age is not known before the first look. */
  readonly #notBefore = new Map<string, number>();
  /** The claims whose charges have arrived at the processor, by their keys. */
  readonly #arrived = new Map<string, string>();

  constructor(
    private readonly history: History,
    private readonly processor: ReferenceProcessor,
    /** The processor's URL for the services. */
    private readonly servicesUrl: string,
    private readonly payments: PaymentClients,
    private readonly random: Random,
  ) {}

  async run(stop: AbortSignal): Promise<void> {
    const work = async () => {
      while (!stop.aborted) {
        const isDue = ({ key, issuedAt }: KeyHistory) =>
          key !== '' && performance.now() >= (this.#notBefore.get(key) ?? issuedAt + OPERATOR_AFTER_MS);
        const due = this.payments.openKeys.filter(isDue);
        if (due.length === 0) await pause(LOOK_EVERY_MS);
        else await this.#lookAt(this.random.pick(due).key);
      }
    };
    await Promise.all(Array.from({ length: WIDTH }, work));
  }

  async #lookAt(key: string): Promise<void> {
    this.#notBefore.set(key, performance.now() + LEASE_MS);
    const shown = await this.#send(`/api/payments/${key}`);
    if (shown.status !== 200) return;
    const { state, claimedAt } = JSON.parse(shown.text) as { state: string; claimedAt: string | null };
    if (state !== 'PROCESSING' || claimedAt === null) return;
    const leftMs = OPERATOR_AFTER_MS - (Date.now() - Date.parse(claimedAt));
    if (leftMs > 0) return void this.#notBefore.set(key, performance.now() + leftMs);
    const hasArrived = this.#arrived.get(key) === claimedAt;
    // A busy process of Node.js accepts one connection in each turn of its loop, in their order, so a charge may wait for half a minute to be
    // read. A later connection that takes the same way is answered after it has arrived.
    const record = await (hasArrived
      ? lookUpCharge(this.processor.url, key)
      : lookUpCharge(this.servicesUrl, key, { agent: new Agent() })
    ).catch(() => undefined);
    // If the processor has a record, the service finds the outcome by itself.
    if (record?.status !== 404) return;
    if (!hasArrived) {
      this.#arrived.set(key, claimedAt);
      return void this.#notBefore.set(key, performance.now() + chargedAfterMs());
    }
    this.verdicts.add(key);
    const body = JSON.stringify({ outcome: 'declined', reason: 'insufficient funds' });
    const headers = { 'Content-Type': 'application/json' };
    const verdict = await this.#send(`/api/payments/${key}/resolution`, { method: 'POST', headers, body });
    // 409: an attempt is under way, or it is final meanwhile.
    if (![200, 409].includes(verdict.status)) this.history.unexpected(key, verdict);
  }

  #send(path: string, request?: Ask): Promise<Reply> {
    return this.history.send(this.history.choose(this.random.fraction()), path, request);
  }
}
