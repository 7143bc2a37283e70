import { expect } from 'vitest';
import { expectPromisesKept } from '../checkers/expect-no-violations.js';
import { Load } from '../client/load.js';
import { History, type Target } from '../history/history.js';
import { outcomeOf } from '../history/payments.js';
import type { Service } from '../processes/service.js';
import { seededRandom, seedFrom } from '../random.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { pause, until } from '../time/until.js';
import { manageStores } from './deployments.js';

const LEASE_MS = 2_000;
const CLIENTS = { payments: 16, transactions: 4 };
const SERIES = 30;
const BACK_DEADLINE_MS = 60_000;
const UNDISTURBED_MS = 1_500;
/** A lock's lease, one recovery round (3 s), and the time of a machine that has other work. */
const FINISH_LIMIT_MS = LEASE_MS + 3_000 + 5_000;
const EVIDENCE = { charges: undefined, leaseMs: LEASE_MS, stuckAfterMs: FINISH_LIMIT_MS };

export type FailoverTrial = Awaited<ReturnType<typeof startTrial>>;

export async function startTrial(redisUrl: string) {
  const database = await createSharedDatabase();
  const environment = {
    REDIS_URL: redisUrl,
    DATABASE_URL: database.url,
    LOCK_TTL_SECONDS: `${LEASE_MS / 1_000}`,
    // Payments take a while, so that each failover finds some between their lock and their settlement.
    PROCESSOR_DELAY_MS: '20',
  };
  const stores = manageStores(environment, () => database.drop());
  const services = await Promise.all([stores.start(), stores.start()]);
  const history = new History(services.map(({ url }, index) => ({ name: `service ${index + 1}`, url })));
  const load = new Load(history, seededRandom(seedFrom('FAILOVER_SEED')));

  const acknowledgedChanges = () => {
    const accesses = history.transactions.flatMap((transaction) => transaction.accesses);
    return accesses.filter(({ input, completed }) => input.what === 'change' && completed?.output === 'done').length;
  };

  const payFirst = async (to: Target) => {
    const key = await load.payments.issue(undefined, to);
    return key !== undefined && (await load.payments.pay(key, to)).status === 200;
  };

  /** Time until a series of first payments begins, at both processes, in which none is refused. */
  async function timeAway(fail: () => Promise<void>): Promise<number> {
    const failedAt = performance.now();
    await fail();
    let served = 0;
    let refusedAt = 0;
    await until('a series of first payments', BACK_DEADLINE_MS, async () => {
      const paid = await Promise.all(history.targets.map(payFirst));
      served = paid.every(Boolean) ? served + 1 : 0;
      if (served === 0) refusedAt = performance.now();
      // The servers notice a failure only after a while, so an earlier series proves nothing.
      return served >= SERIES && (refusedAt > 0 || performance.now() - failedAt > BACK_DEADLINE_MS / 4);
    }).catch((cause: Error) => {
      const held = services.map((service) => [service.url, ...masterLines(service)].join('\n  '));
      throw new Error([cause.message, ...held].join('\n'), { cause });
    });
    return Math.max(0, refusedAt - failedAt);
  }

  return {
    /**
     * Lets `fail` happen under load, and `heal` once payments succeed again, and asserts everything that was promised.
     * Prints how long no payment succeeded.
     */
    async round(name: string, fail: () => Promise<void>, heal = () => {}): Promise<void> {
      const [keysBefore, changesBefore] = [history.keys.length, acknowledgedChanges()];
      let awayMs = 0;
      await load.during(CLIENTS, async () => {
        await pause(UNDISTURBED_MS);
        const end = history.disturbances.begin('redis', 'everything');
        awayMs = await timeAway(fail);
        heal();
        await pause(UNDISTURBED_MS);
        end();
      });
      await expectPromisesKept(load, EVIDENCE, name);
      const keys = history.keys.slice(keysBefore);
      const paid = keys.filter(outcomeOf).length;
      console.log(`${name}: away for ${Math.round(awayMs)} ms; ${paid} of ${keys.length} keys paid, the others unused`);
      expect(paid).toBeGreaterThan(CLIENTS.payments);
      expect(acknowledgedChanges() - changesBefore).toBeGreaterThan(CLIENTS.transactions);
    },
    async close(): Promise<void> {
      history.close();
      await stores.close();
    },
  };
}

/** The process's messages about its Redis master: which it held, for how long, and which the Sentinels named. */
export function masterLines({ logs }: Pick<Service, 'logs'>): string[] {
  const lines = logs.filter(({ msg }) => /Redis|Sentinel/.test(msg ?? ''));
  return lines.map(({ time, msg, err }) => {
    const cause = (err as { message?: string } | undefined)?.message;
    return `${new Date(Number(time)).toISOString()} ${msg}${cause ? `: ${cause}` : ''}`;
  });
}
