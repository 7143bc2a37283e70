import { expect } from 'vitest';
import { inParallel } from '../concurrency.js';
import type { Random } from '../random.js';
import { pause, until } from '../time/until.js';
import { type Answer, ask, pay, transactionIdOf } from './http-client.js';
import { expectReplay } from './payment-answers.js';

/** All that answers for one key have shown. */
export interface PaidKey {
  readonly key: string;
  readonly ids: Set<string>;
  firstTexts: number;
}

const WIDTH = 16;
/** After a refusal for want of a store; a client that asks again at once would only heat the machine. */
const RETRY_MS = 20;
/** Several leases of 2 s and a recovery round. */
const OUTCOME_DEADLINE_MS = 20_000;
const NO_OUTCOME = [409, 503, 504];

/** Clients that pay each key several times at once, each time at any of the processes, whatever is taken from them. */
export class PaymentLoad {
  readonly keys: PaidKey[] = [];
  readonly unexpected: string[] = [];

  /** `alsoRefused`: a status that may be given for a key without an outcome, as 400 once the store forgot it. */
  constructor(
    private readonly urls: readonly string[],
    private readonly random: Random,
    private readonly alsoRefused: readonly number[] = [],
  ) {}

  async run(clients: number, duplicates: number, stop: AbortSignal): Promise<void> {
    const client = async () => {
      while (!stop.aborted) {
        const key = await this.newKey();
        if (key) await Promise.all(Array.from({ length: duplicates }, () => this.attempt(key)));
        else await pause(RETRY_MS);
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Repeats each key until it has an outcome for good; a key without one may end in `alsoRefused`. */
  async finish(): Promise<void> {
    await inParallel(this.keys.length, WIDTH, async (index) => {
      const key = this.keys[index] as PaidKey;
      await until(`an outcome of ${key.key}`, OUTCOME_DEADLINE_MS, async () => {
        return !NO_OUTCOME.includes((await this.attempt(key)).status);
      });
    });
  }

  /** One id per key, told first at most once, and no id for two keys. */
  expectOneIdPerKey(): void {
    expect(this.unexpected.slice(0, 10), `${this.unexpected.length} unexpected answers`).toEqual([]);
    expect(this.keys.filter(({ ids, firstTexts }) => ids.size > 1 || firstTexts > 1)).toEqual([]);
    const ids = this.paid().flatMap((key) => [...key.ids]);
    expect(new Set(ids).size).toBe(ids.length);
  }

  /** Every outcome that was ever told is told again, by every process. */
  async expectRepeated(): Promise<void> {
    for (const url of this.urls) {
      const paid = this.paid();
      await inParallel(paid.length, WIDTH, async (index) => {
        const { key, ids } = paid[index] as PaidKey;
        expectReplay(await pay(url, key), [...ids][0]);
      });
    }
  }

  paid(): PaidKey[] {
    return this.keys.filter(({ ids }) => ids.size > 0);
  }

  private async newKey(): Promise<PaidKey | undefined> {
    const answer = await ask(`${this.random.pick(this.urls)}/api/server-generated/generate-key`);
    if (answer.status !== 200) {
      if (answer.status !== 503) this.unexpected.push(`generate-key: ${answer.status} ${answer.text}`);
      return undefined;
    }
    const key: PaidKey = { key: answer.json<string>(), ids: new Set(), firstTexts: 0 };
    this.keys.push(key);
    return key;
  }

  private async attempt(key: PaidKey): Promise<Answer> {
    const toldBefore = key.ids.size > 0;
    const answer = await pay(this.random.pick(this.urls), key.key);
    const id = transactionIdOf(answer);
    if (answer.status === 200 && id) {
      key.ids.add(id);
      if (answer.text.includes('successfully')) {
        key.firstTexts += 1;
        if (toldBefore) this.unexpected.push(`${key.key}: first text after ${[...key.ids]}`);
      }
    } else if (!NO_OUTCOME.includes(answer.status) && (toldBefore || !this.alsoRefused.includes(answer.status))) {
      this.unexpected.push(`${key.key}: ${answer.status} ${answer.text}${toldBefore ? ' after its outcome' : ''}`);
    }
    return answer;
  }
}
