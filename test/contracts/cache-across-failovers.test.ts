import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import { redisCaches } from '../support/redis-caches.js';
import { type RedisServer, startRedis } from '../support/servers/redis.js';
import { until } from '../support/until.js';

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
});

async function write(cache: TransactionCache, version: number): Promise<void> {
  const transaction: Transaction = {
    id: ID,
    fromAccount: 'A',
    toAccount: 'B',
    amount: '1',
    status: 'PENDING',
    version,
    createdAt: 1_700_000_000_000,
  };
  await cache.refresh(await cache.mark(ID), transaction);
}

async function inStep(replica: RedisServer): Promise<void> {
  await until('the replica to be in step', SYNC_DEADLINE_MS, async () =>
    (await replica.client.info('replication')).includes('master_link_status:up'),
  );
}
