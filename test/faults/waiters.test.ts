import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { type ShownPayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { PATIENT, type Waited, Waiters } from '../../testkit/client/waiters.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import type { Service } from '../../testkit/processes/service.js';
import { type SlowProcessor, startSlowProcessor } from '../../testkit/protocol/slow-processor.js';
import { pause, until } from '../../testkit/time/until.js';

const WAITERS = 500;
const PROCESSES = 3;
const POOL_SIZE = 4;
const LEASE_MS = 5_000;
const SETTINGS = { LOCK_TTL_SECONDS: `${LEASE_MS / 1_000}`, PROCESSOR_TIMEOUT_MS: '4900' };
const CHARGE_MS = 2_000;
/** Longer than it takes to send all waiters and to look at them while they wait, on a busy machine too. */
const LONG_CHARGE_MS = 4_500;
const DEADLINE_MS = 20_000;
/** A dead owner's lock is noticed within a second of its end; then its payment is looked up. */
const AFTER_LEASE_MS = 3_000;
const BUSY_MACHINE_MS = 10_000;
/** Commands of one process while it is looked at: its look, a renewal, and what it asks for by itself. */
const QUIET = 4;
const AWAY_MS = 2_000;
/** A waiter pauses for up to a second between two tries, and who has tried is answered: far from all of them. */
const MOST_TRIES_WHILE_AWAY = 40;
const TEST_TIMEOUT_MS = 60_000;

let slow: SlowProcessor;
let waiters: Waiters;

beforeEach(async () => {
  slow = await startSlowProcessor(CHARGE_MS);
  waiters = new Waiters();
});
afterEach(async () => {
  waiters?.close();
  await slow?.close();
});

describeDeployments(`${WAITERS} requests that wait for one payment at one process`, (deployment) => {
  it(
    'are told its one outcome',
    async () => {
      const stores = await deployment.open();
      try {
        const { url } = await stores.start({ ...SETTINGS, PROCESSOR_URL: slow.url });
        const key = await generateKey(url);
        const first = pay(url, key);
        await until('the charge to be under way', DEADLINE_MS, () => slow.sent().charges > 0);
        const waited = await waiters.send([url], key, WAITERS);
        const id = expectFirst(await first);
        expectTold(waited, id);
        const { attempts } = await expectChargedOnce(url, key, id);
        expect({ attempts, ...slow.sent() }).toEqual({ attempts: 1, charges: 1, lookUps: 0 });
      } finally {
        await stores.close();
      }
    },
    TEST_TIMEOUT_MS,
  );
});

describe(`${WAITERS} requests that wait for one payment at ${PROCESSES} processes`, () => {
  let stores: DistributedStores;
  let owner: Service;
  let others: Service[];
  let urls: string[];

  beforeEach(async () => {
    stores = await openDistributedStores();
    await slow.processor.behave({ latencyMs: LONG_CHARGE_MS });
    const settings = { ...SETTINGS, PROCESSOR_URL: slow.url, DATABASE_POOL_SIZE: `${POOL_SIZE}` };
    const services = await Promise.all(Array.from({ length: PROCESSES }, () => stores.start(settings)));
    urls = services.map(({ url }) => url);
    [owner, ...others] = services as [Service, ...Service[]];
  });
  afterEach(() => stores?.close());

  it(
    'are told its one outcome, and hold neither lock nor connection meanwhile',
    async () => {
      const { key, first, lock } = await beginAtOwner();
      const waited = waiters.send(urls, key, WAITERS);
      await untilAllWait();

      const commands = await commandsOfRedis();
      const seen: { idle: number; [state: string]: number }[] = [];
      for (let look = 0; look < 10; look += 1) {
        seen.push(await connectionsByState());
        await pause(50);
      }
      const commandsMeanwhile = (await commandsOfRedis()) - commands;
      const locks = await stores.redis.client.keys('*:lock');
      const holder = await stores.redis.client.hget(lock.name, 'owner');
      // Else it was not seen while they waited.
      expect(await Promise.race([first, waited, 'under way'])).toBe('under way');

      console.log(`${commandsMeanwhile} commands to Redis; connections to PostgreSQL: ${JSON.stringify(seen)}`);
      expect({ locks, holder }).toEqual({ locks: [lock.name], holder: lock.owner });
      expect(commandsMeanwhile, 'commands to Redis').toBeLessThanOrEqual(QUIET * PROCESSES);
      for (const { idle, ...busy } of seen) {
        const atWork = Object.values(busy).reduce((total, count) => total + count, 0);
        expect(idle + atWork, 'connections to PostgreSQL').toBeLessThanOrEqual(POOL_SIZE * PROCESSES);
        // The owner renews its lease, and recovery looks now and then.
        expect(atWork, JSON.stringify(busy)).toBeLessThanOrEqual(PROCESSES);
        expect(busy).not.toHaveProperty('idle in transaction');
      }

      const id = expectFirst(await first);
      expectTold(await waited, id);
      const { attempts } = await expectChargedOnce(owner.url, key, id);
      expect({ attempts, ...slow.sent() }).toEqual({ attempts: 1, charges: 1, lookUps: 0 });
      expect(await stores.redis.client.keys('*:lock')).toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'are told it when its owner is killed, those who waited there when they ask another process',
    async () => {
      const { key, first } = await beginAtOwner();
      const cut = expect(first).rejects.toThrow();
      const waiting = waiters.send(urls, key, WAITERS);
      await untilAllWait();
      const killedAt = performance.now();
      await owner.kill();
      await cut;
      const waited = await waiting;
      const tookMs = Math.round(performance.now() - killedAt);

      // One of them has finished the payment, unless recovery did; the others are told.
      const taker = waited.find(({ answer }) => !('idempotent-replayed' in answer.headers));
      const id = taker ? expectFirst(taker.answer) : (transactionIdOf((waited[0] as Waited).answer) as string);
      expectTold(waited, id, taker);
      expect(waited.filter(({ sends }) => sends > 1).length).toBeGreaterThanOrEqual(Math.floor(WAITERS / PROCESSES));
      const { attempts } = await expectChargedOnce((others[0] as Service).url, key, id);
      console.log(`all told ${tookMs} ms after the kill; attempts ${attempts}, ${JSON.stringify(slow.sent())}`);
      expect(tookMs).toBeLessThan(LEASE_MS + AFTER_LEASE_MS + BUSY_MACHINE_MS);
      // They come back to the processor once, not all of them: the rest was a second look by chance.
      expect(slow.sent().charges + slow.sent().lookUps).toBeLessThanOrEqual(4);
      expect(attempts).toBeLessThanOrEqual(4);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'try now and then while the processor is away, and are told the outcome when it is back',
    async () => {
      const { key, first } = await beginAtOwner();
      const waiting = waiters.send(urls, key, WAITERS);
      await untilAllWait();
      await slow.processor.kill();
      expectError(await first, 504);
      await pause(AWAY_MS);
      const { attempts } = await shownPaymentOf(owner.url, key);
      await slow.processor.restart({ latencyMs: 0 });

      const waited = await waiting;
      const unknown = waited.filter(({ answer }) => answer.status === 504);
      const told = waited.filter(({ answer }) => answer.status !== 504);
      const taker = told.find(({ answer }) => !('idempotent-replayed' in answer.headers));
      const id = taker ? expectFirst(taker.answer) : (transactionIdOf((told[0] as Waited).answer) as string);
      expectTold(told, id, taker);
      await expectChargedOnce(owner.url, key, id);
      console.log(`${attempts} attempts in ${AWAY_MS} ms; ${unknown.length} were told 504, ${told.length} the outcome`);
      expect(attempts).toBeGreaterThan(1);
      expect(attempts).toBeLessThanOrEqual(MOST_TRIES_WHILE_AWAY);
      expectReplay(await pay(owner.url, key), id);
    },
    TEST_TIMEOUT_MS,
  );

  /** The payment is under way in the first process, and the lock is its own. */
  async function beginAtOwner() {
    const key = await generateKey(owner.url);
    const first = pay(owner.url, key);
    first.catch(() => {});
    await until('the charge to be under way', DEADLINE_MS, () => slow.sent().charges > 0);
    const { lock: name } = (await stores.keyNames()).payment(key);
    return { key, first, lock: { name, owner: await stores.redis.client.hget(name, 'owner') } };
  }

  /** Every waiter has asked once; from then on Redis has little to do. */
  async function untilAllWait(): Promise<void> {
    let before = await commandsOfRedis();
    await until('all to wait', DEADLINE_MS, async () => {
      await pause(150);
      const now = await commandsOfRedis();
      const quiet = now > WAITERS && now - before <= PROCESSES;
      before = now;
      return quiet;
    });
  }

  async function commandsOfRedis(): Promise<number> {
    const stats = await stores.redis.client.info('commandstats');
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
  }

  async function connectionsByState(): Promise<{ idle: number; [state: string]: number }> {
    const rows = await stores.sql<{ state: string; count: number }>(
      `SELECT state, count(*)::int FROM pg_stat_activity
       WHERE application_name = 'idempay' AND datname = current_database() GROUP BY state`,
    );
    return { idle: 0, ...Object.fromEntries(rows.map(({ state, count }) => [state, count])) };
  }
});

/** All of them with 200, that id, and the word that their wait was granted; as a repeat, all but whoever finished it. */
function expectTold(waited: readonly Waited[], id: string, taker?: Waited): void {
  expect(waited.length).toBeGreaterThan(0);
  for (const each of waited) {
    if (each !== taker) expectReplay(each.answer, id);
    expect(each.answer.headers['preference-applied']).toBe(PATIENT.Prefer);
  }
}

async function expectChargedOnce(url: string, key: string, id: string): Promise<ShownPayment> {
  const shown = await shownPaymentOf(url, key);
  expect(shown).toMatchObject({ state: 'COMPLETED', transactionId: id });
  expect(await slow.processor.charges()).toMatchObject([{ reference: key, transactionId: id, status: 'succeeded' }]);
  return shown;
}
