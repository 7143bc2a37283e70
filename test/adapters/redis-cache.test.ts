import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { loadScript } from '#idempay/stores/redis/scripts/script.js';
import { createRedisTransactionCache } from '#idempay/stores/redis/transaction-cache.js';
import { STATEMENT_TIMEOUT_MS, WRITE_DEADLINE_MS } from '#idempay/stores/shared/time-limits.js';
import type { TransactionCache } from '#idempay/transactions/ports/transaction-cache.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import { LONG_MS, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { locationsAt, NAMES, openRedisClient } from '../../testkit/protocol/redis-process.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { until, untilPast } from '../../testkit/time/until.js';

const ID = 100_000_000_000_001;
const SYNC_DEADLINE_MS = 20_000;

let first: RedisServer;
let second: RedisServer;
const clients: RedisClient[] = [];

beforeAll(async () => {
  [first, second] = await Promise.all([startRedis(), startRedis(['--repl-diskless-sync-delay', '0'])]);
});
beforeEach(() => first.client.flushall());
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await Promise.all([first.close(), second.close()]);
});

/** As a process has it that is connected to this server, and reads from this database. */
async function cacheOn({ url }: RedisServer, database = () => 'database', epoch = 1): Promise<TransactionCache> {
  const client = await openRedisClient(url);
  clients.push(client);
  const settings = { transactionCacheTtlMs: LONG_MS, clock: systemClock, roomForFills: () => true };
  return createRedisTransactionCache(client, NAMES, await locationsAt(client, epoch), {
    databaseServer: database,
    ...settings,
  });
}

async function write(cache: TransactionCache, number: number): Promise<void> {
  await cache.refresh(await cache.mark(ID), version(number));
}

function version(number: number): Transaction {
  const money = { fromAccount: 'A', toAccount: 'B', amount: '1' };
  return { id: ID, ...money, status: 'PENDING', version: number, createdAt: 1_700_000_000_000 };
}

async function missedToken(cache: TransactionCache): Promise<string> {
  const seen = await cache.lookUp(ID);
  if (seen.state !== 'miss' || seen.token === undefined) throw new Error('this look-up got no fill token');
  return seen.token;
}

const hit = (number: number) => ({ state: 'hit', transaction: { version: number } });
const MISS = { state: 'miss' };

/**
 * Bug: entries carried the run id of the server process. A server that was master, was replaced and is master again has
 * the same run id, but may never have heard of the writes of the master between.
 * Cause: the run id names a process, not the time for which it is master.
 * Fix: entries carry the replication id, which is new at each start and at each promotion; replicas are refused.
 */
describe('the cache across failovers that kill nobody', () => {
  async function follow(replica: RedisServer, master: RedisServer): Promise<void> {
    await replica.client.replicaof('127.0.0.1', master.port);
    await until('the replica to be in step', SYNC_DEADLINE_MS, async () =>
      (await replica.client.info('replication')).includes('master_link_status:up'),
    );
  }
  const promote = (replica: RedisServer) => replica.client.replicaof('NO', 'ONE');
  const untilCopied = () =>
    until('what is cached to be copied', SYNC_DEADLINE_MS, async () => (await second.client.dbsize()) === 1);
  beforeEach(() => follow(second, first));

  test('a master that comes back does not show what it held before another one took writes', async () => {
    const before = await cacheOn(first);
    await write(before, 1);
    expect(await before.lookUp(ID)).toMatchObject(hit(1));
    await untilCopied();

    await promote(second);
    await follow(first, second);
    const between = await cacheOn(second);
    expect(await between.lookUp(ID), 'the other master knows only what it wrote itself').toMatchObject(MISS);

    await promote(first);
    await write(between, 2);
    expect(await between.lookUp(ID)).toMatchObject(hit(2));
    expect(await (await cacheOn(first)).lookUp(ID)).toMatchObject(MISS);
  });

  test('a master that was left and never demoted does not show what it held, in a later epoch', async () => {
    await write(await cacheOn(first), 1);
    const later = await cacheOn(first, undefined, 2);
    expect(await later.lookUp(ID)).toMatchObject(MISS);
    await write(later, 2);
    expect(await later.lookUp(ID)).toMatchObject(hit(2));
  });

  test('a replica is not read, though it holds what its master wrote', async () => {
    await write(await cacheOn(first), 3);
    await untilCopied();
    await expect((await cacheOn(second)).lookUp(ID)).rejects.toThrow('READONLY');
  });

  /** The old master voids the token when it puts the mark; the replica may be promoted before it hears of that. */
  test('a fill token from before a failover stores nothing, though it was copied', async () => {
    const cache = await cacheOn(first);
    // Its life is made longer, because a slow machine might let it end before it is copied, or even now.
    const token = await until('a fill token with a long life', SYNC_DEADLINE_MS, async () => {
      const missed = await missedToken(cache);
      return (await first.client.pexpire(NAMES.cached(ID).fill, LONG_MS)) === 1 && missed;
    });
    await untilCopied();
    await promote(second);
    await write(await cacheOn(first), 5);
    const promoted = await cacheOn(second);
    expect(await promoted.fill(ID, token, version(4))).toBe(false);
    expect(await promoted.lookUp(ID)).toMatchObject(MISS);
  });

  // The steps of `test/proof/simulator.test.ts` on real servers.
  test('a write mark that a failover brings back stores nothing, and is lifted', async () => {
    const mark = await (await cacheOn(first)).mark(ID);
    await untilCopied();
    await promote(second);
    const promoted = await cacheOn(second);
    await promoted.refresh(mark, version(2));
    expect(await promoted.lookUp(ID)).toMatchObject({ state: 'miss', token: expect.any(String) });
    await write(promoted, 3);
    expect(await promoted.lookUp(ID)).toMatchObject(hit(3));
  });
});

/** Rows from a database that lost its newest rows by a failover must not be served as if they were there. */
describe('the cache across failovers of the database', () => {
  let timeline: string;
  let cache: TransactionCache;
  beforeEach(async () => {
    timeline = 'timeline 1';
    cache = await cacheOn(first, () => timeline);
  });

  test('an entry from before is a miss, for a process that has seen the new database', async () => {
    await write(cache, 2);
    expect(await cache.lookUp(ID)).toMatchObject(hit(2));
    timeline = 'timeline 2';
    expect(await cache.lookUp(ID)).toMatchObject({ state: 'miss', token: expect.any(String) });
  });

  test('what was read or written before is stored neither by a fill nor by a refresh afterwards', async () => {
    const token = await missedToken(cache);
    timeline = 'timeline 2';
    expect(await cache.fill(ID, token, version(4))).toBe(false);
    expect(await cache.lookUp(ID)).toMatchObject(MISS);
    const mark = await cache.mark(ID);
    timeline = 'timeline 3';
    await cache.refresh(mark, version(4));
    expect(await cache.lookUp(ID)).toMatchObject(MISS);
  });

  test('a higher version of the lost rows does not stand in the way of a lower one of the new ones', async () => {
    const late = await cache.mark(ID);
    timeline = 'timeline 2';
    const mark = await cache.mark(ID);
    await cache.refresh(late, version(9));
    await cache.refresh(mark, version(2));
    expect(await cache.lookUp(ID), 'versions of two databases cannot be compared').toMatchObject(MISS);
    await write(cache, 3);
    expect(await cache.lookUp(ID)).toMatchObject(hit(3));
  });

  test('a process that has not seen the new database does not hit what a write in the new one replaced', async () => {
    const behind = await cacheOn(first, () => 'timeline 1');
    await write(behind, 2);
    timeline = 'timeline 2';
    await write(cache, 2);
    expect(await behind.lookUp(ID)).toMatchObject(MISS);
  });
});

/**
 * Bug: the mark of a writer that died stood for as long as others went on writing the same transaction, which was then
 * cached no more.
 * Cause: each mark lengthened the life of the hash that holds all marks of the transaction, dead ones included.
 * Fix: each mark has a deadline of its own.
 */
describe('the write marks of one transaction', () => {
  const [mark, lift, lookUp] = [loadScript('cache-mark'), loadScript('cache-lift'), loadScript('cache-look-up')];
  const KEYS = Object.values(NAMES.cached(ID));
  let master: string;
  beforeEach(async () => {
    master = (await locationsAt(first.client)).current?.masters ?? '';
  });
  const put = (token: string, lifeMs: number) => mark(first.client, KEYS, [token, lifeMs, 'database', master]);
  const write = (token: string, version: number) =>
    lift(first.client, KEYS, [token, version, `version ${version}`, LONG_MS, 'database', master]);
  const look = () => lookUp(first.client, KEYS, ['token', LONG_MS, 'database', master]);

  test('each end by themselves: that of a writer that died does not live on by later writes', async () => {
    await put('orphan', LONG_MS);
    await put('first', LONG_MS);
    await write('first', 2);
    expect(await look(), 'the write of the dead may still commit').toEqual(['pass']);
    // It is put again with a short life, which a slow machine might have let end before the steps above.
    await put('orphan', SHORT_MS);
    await untilPast(SHORT_MS);

    await put('second', LONG_MS);
    await write('second', 3);
    expect(await look()).toEqual(['hit', 'version 3']);
  });

  test('stand longer than a write may take to begin, and its statement to run', async () => {
    await (await cacheOn(first)).mark(ID);
    const [, , marks = ''] = KEYS;
    expect(await first.client.pttl(marks)).toBeGreaterThan(WRITE_DEADLINE_MS + STATEMENT_TIMEOUT_MS);
  });

  test('leave no entry that may be older than the row when one of two writers died', async () => {
    await put('under way', LONG_MS);
    await put('orphan', SHORT_MS);
    await untilPast(SHORT_MS);
    await write('under way', 2);
    expect(await look()).toEqual(['pass']);
  });
});
