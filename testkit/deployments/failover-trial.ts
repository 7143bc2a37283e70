import { expect } from 'vitest';
import { type Answer, ask, pay } from '../client/http-client.js';
import { readInto } from '../client/load-clients.js';
import { PaymentLoad } from '../client/payment-load.js';
import { changeStatus, MOVABLE_STATUSES, postTransaction } from '../client/transactions.js';
import { alongside } from '../concurrency.js';
import { LoadJournal } from '../history/load-journal.js';
import type { TransactionEntry } from '../history/transaction-journal.js';
import { type Service, startService } from '../processes/service.js';
import { type Random, seededRandom, seedFrom } from '../random.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { pause, until } from '../time/until.js';

const LOCK_TTL_SECONDS = 2;
/** Payments take a while, so that each failover finds some between their lock and their settlement. */
const PROCESSOR_DELAY_MS = 20;
const CLIENTS = 16;
const DUPLICATES = 2;
const WRITERS = 4;
/** Of so many keys some surely lie on each master. */
const SERIES = 30;
const BACK_DEADLINE_MS = 60_000;
const UNDISTURBED_MS = 1_500;
/** A lock's lease, one recovery round (3 s), and the time of a machine that has other work. */
const FINISH_LIMIT_MS = (LOCK_TTL_SECONDS + 3) * 1_000 + 5_000;

export interface FailoverTrial {
  /**
   * Lets `fail` happen under load, and `heal` once payments succeed again, and asserts everything that was promised.
   * Prints how long payments were away.
   */
  round(name: string, fail: () => Promise<void>, heal?: () => void): Promise<void>;
  close(): Promise<void>;
}

/** Two processes on one Redis and one database, to be put through failovers. */
export async function startTrial(redisUrl: string): Promise<FailoverTrial> {
  const random = seededRandom(seedFrom('FAILOVER_SEED'));
  const database = await createSharedDatabase();
  const environment = {
    REDIS_URL: redisUrl,
    DATABASE_URL: database.url,
    LOCK_TTL_SECONDS: String(LOCK_TTL_SECONDS),
    PROCESSOR_DELAY_MS: String(PROCESSOR_DELAY_MS),
  };
  const services = await Promise.all([startService(environment), startService(environment)]);
  const urls = services.map(({ url }) => url);

  return {
    async round(name, fail, heal = () => {}) {
      const load = new PaymentLoad(urls, random.fork(), [400]);
      const journal = new LoadJournal();
      journal.mayBeUnavailable = true;
      const stop = new AbortController();
      const paying = load.run(CLIENTS, DUPLICATES, stop.signal);
      let awayMs = 0;
      const writers = Array.from({ length: WRITERS }, (_, index) => new Writer(urls, index, journal, random.fork()));
      try {
        await alongside(
          WRITERS,
          (loop) => (writers[loop] as Writer).step(),
          async () => {
            await pause(UNDISTURBED_MS);
            awayMs = await timeAway(services, fail).catch((error: Error) => {
              const held = services.map((service) => [service.url, ...masterLines(service)].join('\n  '));
              throw new Error([error.message, ...held].join('\n'));
            });
            heal();
            await pause(UNDISTURBED_MS);
          },
        );
      } finally {
        stop.abort();
        await paying;
      }
      const finishing = performance.now();
      await load.finish();
      const finishMs = performance.now() - finishing;

      load.expectOneIdPerKey();
      await load.expectRepeated();
      journal.expectNoViolations(name);
      expect(finishMs, 'a lock or a payment under way was stuck for longer than a lease and a recovery').toBeLessThan(
        FINISH_LIMIT_MS,
      );
      const changes = writers.reduce((sum, { acknowledged }) => sum + acknowledged, 0);
      console.log(
        `${name}: first payments at both processes again after ${Math.round(awayMs)} ms; ` +
          `${load.keys.length} keys, ${load.paid().length} paid once, ${load.keys.length - load.paid().length} lost unused; ` +
          `the last outcome ${Math.round(finishMs)} ms after the load; ${changes} acknowledged changes, no stale read`,
      );
      expect(load.paid().length).toBeGreaterThan(CLIENTS);
      expect(changes).toBeGreaterThan(WRITERS);
    },
    async close() {
      await Promise.all(services.map((service) => service.kill()));
      await database.drop();
    },
  };
}

/** What the process has said of its Redis master: which it held, for how long, and what the Sentinels named. */
export function masterLines({ logs }: Pick<Service, 'logs'>): string[] {
  const lines = logs.filter(({ msg }) => /Redis|Sentinel/.test(msg ?? ''));
  return lines.map(({ time, msg, err }) => {
    const cause = (err as { message?: string } | undefined)?.message;
    return `${new Date(Number(time)).toISOString()} ${msg}${cause ? `: ${cause}` : ''}`;
  });
}

/** Until the first of a series of first payments, at both processes, of which none is refused any more. */
async function timeAway(services: readonly Service[], fail: () => Promise<void>): Promise<number> {
  const failedAt = performance.now();
  await fail();
  let refused = false;
  let since = performance.now();
  let served = 0;
  await until('a series of first payments', BACK_DEADLINE_MS, async () => {
    const askedAt = performance.now();
    const paid = await Promise.all(services.map(({ url }) => payFirst(url)));
    if (paid.every(Boolean)) {
      if (served === 0) since = askedAt;
      served += 1;
    } else {
      refused = true;
      served = 0;
    }
    // What fails is noticed by the servers only after a while: a series before that says nothing.
    return served >= SERIES && (refused || performance.now() - failedAt > BACK_DEADLINE_MS / 4);
  });
  return refused ? since - failedAt : 0;
}

async function payFirst(url: string): Promise<boolean> {
  const key = await ask(`${url}/api/server-generated/generate-key`);
  if (key.status !== 200) return false;
  return (await pay(url, key.json<string>())).status === 200;
}

/** Changes a transaction's status at one process and reads it at the other at once: it must be the new one. */
class Writer {
  acknowledged = 0;
  private entry: TransactionEntry | undefined;

  constructor(
    private readonly urls: readonly string[],
    private readonly index: number,
    private readonly journal: LoadJournal,
    private readonly random: Random,
  ) {}

  async step(): Promise<void> {
    const { transactions } = this.journal;
    if (!this.entry) {
      const draft = transactions.draft(this.index + 1);
      const { fromAccount, toAccount, amount } = draft;
      this.entry = transactions.created(draft, await postTransaction(this.here, { fromAccount, toAccount, amount }));
      return;
    }
    const entry = this.entry;
    const status = this.random.pick(MOVABLE_STATUSES.filter((each) => each !== entry.seen.status));
    const url = this.random.pick(this.urls);
    const answer: Answer = await transactions.change(entry, status, () =>
      changeStatus(url, entry.seen.transactionId, status),
    );
    if (answer.status === 200) this.acknowledged += 1;
    // Twice, so that what the first read put into the cache is read too.
    for (const other of [...this.urls.filter((each) => each !== url), url]) await readInto(this.journal, other, entry);
  }

  private get here(): string {
    return this.urls[this.index % this.urls.length] as string;
  }
}
