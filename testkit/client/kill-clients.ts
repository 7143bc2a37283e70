import { Agent } from 'node:http';
import { inParallel } from '../concurrency.js';
import type { KeyEntry, KillJournal } from '../history/kill-journal.js';
import type { KillableService } from '../processes/killable-service.js';
import type { Random } from '../random.js';
import { pause, until } from '../time/until.js';
import { type Answer, ask, pay } from './http-client.js';

/** Keys that a client keeps: they wait for their payment while processes are killed. */
const STOCK = 6;
/** A client that waits longer sends again, at whichever process; the late answer is recorded when it comes. */
const PATIENCE_MS = 1_200;
/** Before a request is repeated that failed, at most: at once it would only heat the machine. */
const LONGEST_PAUSE_MS = 80;
/** Between two payments of a client, at most: a machine that is busy with clients starts no process. */
const LONGEST_THOUGHT_MS = 40;
const MOST_SENDS = 3;
const FINISH_WIDTH = 16;
/** Each with as many decimals as it has, so that every amount below is written as it is kept. */
const DECIMALS = { EUR: 2, USD: 2, JPY: 0, KWD: 3 } as const;
const CURRENCIES = Object.keys(DECIMALS) as (keyof typeof DECIMALS)[];

/** Clients of services that are killed: each pays one key after the other, each key two or three times. */
export class KillClients {
  readonly #agent = new Agent({ keepAlive: true, timeout: 1_000 });
  /** Requests that are not answered yet, those that no client waits for any more included. */
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(
    private readonly services: readonly KillableService[],
    private readonly journal: KillJournal,
    private readonly random: Random,
  ) {}

  /** Resolves when `stop` has been aborted and every request is answered or cut off. */
  async run(clients: number, stop: AbortSignal): Promise<void> {
    const randoms = Array.from({ length: clients }, () => this.random.fork());
    await Promise.all(randoms.map((random) => this.#client(random, stop)));
    await Promise.all(this.#underWay);
  }

  /** Repeats every payment that was not told its outcome until it is, and pays with every key that was never used. */
  async finish(deadlineMs: number): Promise<void> {
    const entries = this.journal.withoutOutcome();
    await inParallel(entries.length, FINISH_WIDTH, async (index) => {
      const entry = entries[index] as KeyEntry;
      await until(`an outcome of ${JSON.stringify(entry)}`, deadlineMs, async () => {
        await this.#send(entry, this.random);
        return entry.outcome !== undefined;
      });
    });
    await Promise.all(this.#underWay);
  }

  /** Asks each process once more for the outcomes that were told. */
  async repeat(entries: readonly KeyEntry[]): Promise<void> {
    for (const service of this.services) {
      await inParallel(entries.length, FINISH_WIDTH, async (index) => {
        const entry = entries[index] as KeyEntry;
        const answer = await this.#sendTo(service, entry, {});
        if (answer?.headers['idempotent-replayed'] === 'true') return;
        this.journal.violations.push(`${entry.key}: its outcome was not repeated: ${answer?.status} ${answer?.text}`);
      });
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #client(random: Random, stop: AbortSignal): Promise<void> {
    const stock: KeyEntry[] = [];
    const open: KeyEntry[] = [];
    while (!stop.aborted) {
      if (stock.length < STOCK) {
        const entry = await this.#issue(random);
        if (entry) stock.push(entry);
        else await pause(random.below(LONGEST_PAUSE_MS));
      }
      if (stock.length === STOCK || (stock.length > 0 && random.below(2) === 0)) {
        const [entry] = stock.splice(random.below(stock.length), 1);
        await this.#payWith(entry as KeyEntry, random, stop);
        open.push(entry as KeyEntry);
      }
      await this.#payAgain(open, random);
      await pause(random.below(LONGEST_THOUGHT_MS));
    }
  }

  async #issue(random: Random): Promise<KeyEntry | undefined> {
    const { url } = random.pick(this.services);
    const answer = await ask(`${url}/api/server-generated/generate-key`, { agent: this.#agent }).catch(() => undefined);
    return answer && this.journal.issued(answer, someMoney(random));
  }

  /** Several times at once, or one after the other, after a success too. */
  async #payWith(entry: KeyEntry, random: Random, stop: AbortSignal): Promise<void> {
    const sends = Array.from({ length: 2 + random.below(MOST_SENDS - 1) });
    if (random.below(2) === 0) {
      await Promise.all(sends.map(() => this.#send(entry, random)));
      return;
    }
    for (const _ of sends) {
      if (stop.aborted) return;
      await this.#send(entry, random);
      if (entry.outcome === undefined) await pause(random.below(LONGEST_PAUSE_MS));
    }
  }

  /** Comes back to a payment without an outcome now and then, while recovery is at work on it or somebody is killed. */
  async #payAgain(open: KeyEntry[], random: Random): Promise<void> {
    if (open.length === 0 || random.below(3) === 0) return;
    const [entry] = open.splice(random.below(open.length), 1) as [KeyEntry];
    if (entry.outcome !== undefined) return;
    await this.#send(entry, random);
    open.push(entry);
  }

  /** Resolves with the answer, or without one when the client has no patience left. */
  async #send(entry: KeyEntry, random: Random): Promise<void> {
    const headers: Record<string, string> = random.below(4) === 0 ? { Prefer: 'wait=2' } : {};
    await Promise.race([this.#sendTo(random.pick(this.services), entry, headers), pause(PATIENCE_MS)]);
  }

  #sendTo(service: KillableService, entry: KeyEntry, headers: Record<string, string>): Promise<Answer | undefined> {
    const { kills, isUp } = service;
    const { key, amount, currency } = entry;
    const attempt = this.journal.attempt(
      entry,
      () => pay(service.url, key, { amount, currency }, { headers, agent: this.#agent }),
      () => !isUp || service.kills !== kills,
    );
    const underWay: Promise<unknown> = attempt.finally(() => this.#underWay.delete(underWay));
    this.#underWay.add(underWay);
    return attempt;
  }
}

function someMoney(random: Random): { amount: string; currency: string } {
  const currency = random.pick(CURRENCIES);
  const units = `${1 + random.below(99_999)}`;
  const decimals = DECIMALS[currency];
  if (decimals === 0) return { amount: units, currency };
  return { amount: `${units}.${`${random.below(10 ** decimals)}`.padStart(decimals, '0')}`, currency };
}
