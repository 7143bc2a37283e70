import { expect } from 'vitest';
import { expectPromisesKept } from '../checkers/expect-no-violations.js';
import { Load } from '../client/load.js';
import { History, type Target } from '../history/history.js';
import { outcomeOf } from '../history/payments.js';
import { DONE } from '../history/transactions.js';
import { type Service, startService } from '../processes/service.js';
import { seededRandom, seedFrom } from '../random.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { pause, until } from '../time/until.js';

const LOCK_TTL_SECONDS = 2;
const LEASE_MS = LOCK_TTL_SECONDS * 1_000;
/** Payments take a while, so that each failover finds some between their lock and their settlement. */
const PROCESSOR_DELAY_MS = 20;
const CLIENTS = { payments: 16, transactions: 4 };
/** Of so many keys some surely lie on each master. */
const SERIES = 30;
const BACK_DEADLINE_MS = 60_000;
const UNDISTURBED_MS = 1_500;
/** A lock's lease, one recovery round (3 s), and the time of a machine that has other work. */
const FINISH_LIMIT_MS = LEASE_MS + 3_000 + 5_000;

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
  const database = await createSharedDatabase();
  const environment = {
    REDIS_URL: redisUrl,
    DATABASE_URL: database.url,
    LOCK_TTL_SECONDS: `${LOCK_TTL_SECONDS}`,
    PROCESSOR_DELAY_MS: `${PROCESSOR_DELAY_MS}`,
  };
  const services = await Promise.all([startService(environment), startService(environment)]);
  const targets = services.map(({ url }, index) => ({ name: `service ${index + 1}`, url }));
  const history = new History(targets);
  const load = new Load(history, seededRandom(seedFrom('FAILOVER_SEED')));

  return {
    async round(name, fail, heal = () => {}) {
      const [keysBefore, changesBefore] = [history.keys.length, acknowledgedChanges(history)];
      const awayMs = await load.during(CLIENTS, async () => {
        await pause(UNDISTURBED_MS);
        return history.disturbances.during(
          'redis',
          async () => {
            const tookMs = await timeAway(load, targets, fail).catch((error: Error) => {
              const held = services.map((service) => [service.url, ...masterLines(service)].join('\n  '));
              throw new Error([error.message, ...held].join('\n'));
            });
            heal();
            await pause(UNDISTURBED_MS);
            return tookMs;
          },
          'everything',
        );
      });
      const finishing = performance.now();
      const evidence = { charges: undefined, leaseMs: LEASE_MS, stuckAfterMs: FINISH_LIMIT_MS };
      await expectPromisesKept(load, evidence, name);

      const keys = history.keys.slice(keysBefore);
      const paid = keys.filter((key) => outcomeOf(key) !== undefined).length;
      const changes = acknowledgedChanges(history) - changesBefore;
      console.log(
        `${name}: first payments at both processes again after ${Math.round(awayMs)} ms; ` +
          `${keys.length} keys, ${paid} paid once, ${keys.length - paid} lost unused; ` +
          `the last requests took ${Math.round(performance.now() - finishing)} ms; ${changes} acknowledged changes, no stale read`,
      );
      expect(paid).toBeGreaterThan(CLIENTS.payments);
      expect(changes).toBeGreaterThan(CLIENTS.transactions);
    },
    async close() {
      history.close();
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
async function timeAway({ payments }: Load, targets: readonly Target[], fail: () => Promise<void>): Promise<number> {
  const payFirst = async (to: Target) => {
    const key = await payments.issue(undefined, to);
    return key !== undefined && (await payments.pay(key, to)).status === 200;
  };
  const failedAt = performance.now();
  await fail();
  let refused = false;
  let since = performance.now();
  let served = 0;
  await until('a series of first payments', BACK_DEADLINE_MS, async () => {
    const askedAt = performance.now();
    const paid = await Promise.all(targets.map(payFirst));
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

function acknowledgedChanges({ transactions }: History): number {
  const changes = transactions.flatMap(({ accesses }) => accesses.filter(({ input }) => input.what === 'change'));
  return changes.filter(({ completed }) => completed?.output === DONE).length;
}
