import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import { redisCaches } from '../../testkit/protocol/redis-process.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { until } from '../../testkit/time/until.js';

const ID = 100_000_000_000_001;
const SYNC_DEADLINE_MS = 20_000;

/**
 * Bug: entries carried the run id of the server process. A server that was master, was replaced and is master again has
 * the same run id, but may never have heard of the writes of the master between.
 * Cause: the run id names a process, not the time for which it is master.
 * Fix: entries carry the replication id, which is new at each start and at each promotion; replicas are refused.
 */
describe('the cache across failovers that kill nobody', () => {
  let first: RedisServer;
  let second: RedisServer;
  const caches = redisCaches();

  beforeAll(async () => {
    [first, second] = await Promise.all([startRedis(), startRedis(['--repl-diskless-sync-delay', '0'])]);
    await second.client.replicaof('127.0.0.1', first.port);
    await inStep(second);
  });
  afterAll(async () => {
    caches.disconnect();
    await Promise.all([first.close(), second.close()]);
  });

  test('a master that comes back does not show what it held before another one took writes', async () => {
    const before = await caches.on(first);
    await write(before, 1);
    expect(await before.lookUp(ID)).toMatchObject({ state: 'hit' });
    await until('the entry to be copied', SYNC_DEADLINE_MS, async () => (await second.client.dbsize()) === 1);

    await second.client.replicaof('NO', 'ONE');
    await first.client.replicaof('127.0.0.1', second.port);
    await inStep(first);
    const between = await caches.on(second);
    expect(await between.lookUp(ID), 'the other master knows only what it wrote itself').toMatchObject({
      state: 'miss',
    });

    await first.client.replicaof('NO', 'ONE');
    await write(between, 2);
    expect(await between.lookUp(ID)).toMatchObject({ state: 'hit', transaction: { version: 2 } });
    const after = await caches.on(first);
    expect(await after.lookUp(ID)).toMatchObject({ state: 'miss' });
  });

  test('a replica is not read, though it holds what its master wrote', async () => {
    await second.client.replicaof('127.0.0.1', first.port);
    await write(await caches.on(first), 3);
    await inStep(second);
    await expect((await caches.on(second)).lookUp(ID)).rejects.toThrow('READONLY');
  });

  /** The old master voids the token when it puts the mark; the replica may be promoted before it hears of that. */
  test('a fill token from before a failover stores nothing, though it was copied', async () => {
    await first.client.flushall();
    await second.client.replicaof('127.0.0.1', first.port);
    await inStep(second);
    const seen = await (await caches.on(first)).lookUp(ID);
    if (seen.state !== 'miss' || seen.token === undefined) throw new Error('this look-up got no fill token');
    await until('the token to be copied', SYNC_DEADLINE_MS, async () => (await second.client.dbsize()) === 1);

    await second.client.replicaof('NO', 'ONE');
    await write(await caches.on(first), 5);
    const promoted = await caches.on(second);
    expect(await promoted.fill(ID, seen.token, version(4))).toBe(false);
    expect(await promoted.lookUp(ID)).toMatchObject({ state: 'miss' });
  });
});

/** What was read from a database whose newest rows were lost by a failover must not be served as if they were there. */
describe('the cache across failovers of the database', () => {
  let redis: RedisServer;
  let timeline: string;
  let cache: TransactionCache;
  const caches = redisCaches();

  beforeAll(async () => {
    redis = await startRedis();
  });
  beforeEach(async () => {
    await redis.client.flushall();
    timeline = 'timeline 1';
    cache = await caches.on(redis, () => timeline);
  });
  afterAll(async () => {
    caches.disconnect();
    await redis.close();
  });

  test('an entry from before is a miss, for whoever has seen the new database', async () => {
    await write(cache, 2);
    const other = await caches.on(redis);
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'hit' });
    timeline = 'timeline 2';
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'miss', token: expect.any(String) });
    expect(await other.lookUp(ID)).toMatchObject({ state: 'miss' });
  });

  test('what was read before is not filled in afterwards', async () => {
    const seen = await cache.lookUp(ID);
    if (seen.state !== 'miss' || seen.token === undefined) throw new Error('this look-up got no fill token');
    timeline = 'timeline 2';
    expect(await cache.fill(ID, seen.token, version(4))).toBe(false);
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'miss' });
  });

  test('what was written before is not stored afterwards', async () => {
    const mark = await cache.mark(ID);
    timeline = 'timeline 2';
    await cache.refresh(mark, version(4));
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'miss' });
  });

  test('a higher version of the lost rows does not stand in the way of a lower one of the new ones', async () => {
    const late = await cache.mark(ID);
    timeline = 'timeline 2';
    const mark = await cache.mark(ID);
    await cache.refresh(late, version(9));
    await cache.refresh(mark, version(2));
    expect(await cache.lookUp(ID), 'versions of two databases cannot be compared').toMatchObject({ state: 'miss' });
    await write(cache, 3);
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'hit', transaction: { version: 3 } });
  });

  test('a process that has not seen the new database does not hit what a write in the new one replaced', async () => {
    const behind = await caches.on(redis, () => 'timeline 1');
    await write(behind, 2);
    timeline = 'timeline 2';
    await write(cache, 2);
    expect(await behind.lookUp(ID)).toMatchObject({ state: 'miss' });
  });
});

async function write(cache: TransactionCache, number: number): Promise<void> {
  await cache.refresh(await cache.mark(ID), version(number));
}

function version(number: number): Transaction {
  return {
    id: ID,
    fromAccount: 'A',
    toAccount: 'B',
    amount: '1',
    status: 'PENDING',
    version: number,
    createdAt: 1_700_000_000_000,
  };
}

async function inStep(replica: RedisServer): Promise<void> {
  await until('the replica to be in step', SYNC_DEADLINE_MS, async () =>
    (await replica.client.info('replication')).includes('master_link_status:up'),
  );
}
