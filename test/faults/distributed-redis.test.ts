import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectKeyValue, INVALID_KEY, keyRecord } from '../../testkit/client/payment-answers.js';
import { expectUnknownTransaction, givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const SCRIPTS = new URL('../../dist/deployments/distributed/redis/scripts/', import.meta.url);
/** A watch that looks every few seconds has looked twice by then. */
const DEADLINE_MS = 15_000;
const MIB = 1024 * 1024;

let stores: DistributedStores;
afterEach(() => stores.close());

async function cacheStatus(url: string, id: number): Promise<string> {
  return String((await readTransaction(url, id)).headers['cache-status']);
}

/** What the service says and does about a Redis that is not set as it should be. */
describe('the settings of Redis', () => {
  async function serveOn(settings: readonly string[]) {
    stores = await openDistributedStores(settings);
    const { url, logs } = await stores.serve();
    const warnings = () => logs.filter(({ level, msg }) => level === 40 && /^Redis(?! cannot serve)/.test(msg ?? ''));
    return { url, warnings };
  }

  test('that may evict keys, or forget them in a restart, are warned of at start', async () => {
    const { warnings } = await serveOn(['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru']);
    await until('both warnings', DEADLINE_MS, () => warnings().length >= 2);
    const text = JSON.stringify(warnings());
    expect(text).toMatch(/maxmemory-policy is allkeys-lru/);
    expect(text).toMatch(/append-only file/);
  });

  test('that are as they should be are not warned of', async () => {
    const { url, warnings } = await serveOn(['--maxmemory-policy', 'noeviction', '--appendonly', 'yes']);
    expectFirst(await pay(url, await generateKey(url)));
    expect(warnings()).toEqual([]);
  });

  test('that leave little memory keep the cache from taking more, and payments go on', async () => {
    const { url } = await serveOn(['--maxmemory', `${64 * MIB}`, '--maxmemory-policy', 'noeviction']);
    const { client } = stores.redis;
    const before = await givenTransaction(url);
    expect(await cacheStatus(url, before.transactionId)).toMatch(/fwd=miss/);
    expect(await cacheStatus(url, before.transactionId)).toMatch(/hit/);

    for (let piece = 0; piece < 43; piece += 1) await client.set(`somebody-elses:${piece}`, 'x'.repeat(MIB));
    const after = await givenTransaction(url);
    await until('a read that is not kept', DEADLINE_MS, async () => {
      const entries = await client.keys(`idempay:*:{transactionCache::${after.transactionId}}`);
      if (entries.length > 0) await client.del(...entries);
      await readTransaction(url, after.transactionId);
      return /fwd=miss/.test(await cacheStatus(url, after.transactionId));
    });
    expectFirst(await pay(url, await generateKey(url)));
  });
});

/**
 * Bug: a Redis that hung longer than a command's deadline answered NOSCRIPT to the release of a lock after its caller had
 * given up, so the text was never sent and the lock stood for its whole lease. Cause: scripts were taught when they were
 * first run. Fix: at each connection.
 */
test('every script is known to Redis once the service is connected, and again after a restart of Redis', async () => {
  stores = await openDistributedStores();
  await stores.serve();
  const texts = readdirSync(SCRIPTS).map((file) => readFileSync(new URL(file, SCRIPTS)));
  const digests = texts.map((text) => createHash('sha1').update(text).digest('hex'));
  expect(digests.length).toBeGreaterThan(5);
  const untilAllAreKnown = () =>
    until('every script to be known', DEADLINE_MS, async () => {
      const known = (await stores.redis.client.script('EXISTS', ...digests)) as number[];
      return known.every((each) => each === 1);
    });
  await untilAllAreKnown();
  await stores.redis.kill();
  await stores.redis.start();
  await untilAllAreKnown();
});

/**
 * Bug: two databases on one Redis had the same names for their cache entries and records, so the second was answered with
 * the first one's transaction, with `cache-status: hit`.
 * Cause: names held the id alone, and every database counts its transactions from the same number.
 * Fix: all names begin with the deployment's id, which its database holds (decisions O5).
 */
describe('two databases on one Redis', () => {
  let second: Awaited<ReturnType<typeof createSharedDatabase>>;
  let one: string;
  let other: string;
  beforeEach(async () => {
    [stores, second] = await Promise.all([openDistributedStores(), createSharedDatabase()]);
    one = (await stores.serve()).url;
    other = (await stores.serve({ DATABASE_URL: second.url })).url;
  });
  // After the services, which are closed first.
  afterEach(() => second.drop());

  test('do not read the transactions of each other, also not by the same id, and find their own after a restart', async () => {
    const ours = await givenTransaction(one);
    const id = ours.transactionId;
    await readTransaction(one, id);
    expect(await cacheStatus(one, id)).toMatch(/hit/);
    expectUnknownTransaction(await readTransaction(other, id), id);
    const theirs = await givenTransaction(other, { fromAccount: 'somebody', toAccount: 'else' });
    expect(theirs.transactionId).toBe(id);
    for (const url of [other, other]) expect((await readTransaction(url, id)).json()).toEqual(theirs);
    expect((await readTransaction(one, id)).json()).toEqual(ours);
    expect(await cacheStatus((await stores.serve()).url, id)).toMatch(/hit/);
  });

  test('do not know the keys of each other, and show their own by the bare key', async () => {
    const key = await generateKey(one);
    await expectKeyValue(one, key, 'KEY GENERATED');
    expectError(await keyRecord(other, key), 404);
    expectError(await pay(other, key), 400, INVALID_KEY);
    await expectKeyValue(one, key, expectFirst(await pay(one, key)));
    expectError(await paymentStatus(other, key), 404);
    expectError(await pay(other, key), 400, INVALID_KEY);
  });
});
