import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { readScripts } from '#idempay/stores/redis/scripts/script.js';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { untilFullService } from '../../testkit/client/full-service.js';
import { ask, generateKey, pay, paymentStatus, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectKeyValue,
  expectReplay,
  givenPaid,
  INVALID_KEY,
  keyRecord,
  UNKNOWN_KEY,
  untilPaid,
} from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  expectUnknownTransaction,
  givenTransaction,
  listTransactions,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { executionOf, openDistributedStores, openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { startHoldingProcessor } from '../../testkit/servers/holding-processor.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

/** A watch that looks every few seconds has looked twice by then. */
const DEADLINE_MS = 15_000;
const MIB = 1024 * 1024;
/** Sum of the waits of a reader for the one loader: in a round that was over sooner, no reader gave up and loaded by itself. */
const READER_WAITS_MS = 60;
const ROUNDS_OF_ONE_LOAD = 20;
const MOST_ROUNDS = 1_000;
const READERS = 6;
/** All that is for a service which shares its Redis: nothing that walks or empties it, and no name of others. */
const COMMANDS =
  'eval evalsha del exists subscribe publish hget hgetall hmget hset hdel hlen hexists pexpire pexpireat pttl ' +
  'hello client info ping dbsize time config|get xadd xtrim xread';
const RIGHTS = ['~idempay:*', '&idempay:*', ...COMMANDS.split(' ').map((command) => `+${command}`)];

const [greedy, shop] = ['greedy', 'shop'].map((name) => credentialOf(name, ['payments:write'])) as [
  Credential,
  Credential,
];
const keys = await requireKeys(greedy, shop);
const MONEY = { amount: '1.00', currency: 'EUR' };

async function cacheStatus(url: string, id: number): Promise<string> {
  return String((await readTransaction(url, id)).headers['cache-status']);
}

/** Messages and actions of the service about a Redis that is not set as it should be. */
describe('the settings of Redis', () => {
  test.each([
    [
      'that may evict keys, or forget them in a restart, are warned of at start',
      ['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'],
      [/maxmemory-policy is allkeys-lru/, /append-only file/],
    ],
    ['that are as they should be are not warned of', ['--maxmemory-policy', 'noeviction', '--appendonly', 'yes'], []],
  ])('%s', async (_title, settings, warnings) => {
    const { url, logs } = await (await openTestStores(settings)).serve();
    await givenPaid(url);
    const warned = () => logs.filter(({ level, msg }) => level === 40 && /^Redis(?! cannot serve)/.test(msg ?? ''));
    await until('all warnings', DEADLINE_MS, () => warned().length >= warnings.length);
    expect(warned()).toHaveLength(warnings.length);
    for (const warning of warnings) expect(JSON.stringify(warned())).toMatch(warning);
  });

  test('that leave little memory keep the cache from taking more, and payments go on', async () => {
    const stores = await openTestStores(['--maxmemory', `${64 * MIB}`, '--maxmemory-policy', 'noeviction']);
    const { url } = await stores.serve();
    const { client } = stores.redis;
    const before = await givenTransaction(url);
    expect(await cacheStatus(url, before.transactionId)).toMatch(/fwd=miss/);
    expect(await cacheStatus(url, before.transactionId)).toMatch(/hit/);

    for (let piece = 0; piece < 43; piece += 1) await client.set(`somebody-elses:${piece}`, 'x'.repeat(MIB));
    const { transactionId: after } = await givenTransaction(url);
    const { entry } = (await stores.keyNames()).cached(after);
    await until('a read that is not kept', DEADLINE_MS, async () => {
      await client.del(entry);
      await readTransaction(url, after);
      return /fwd=miss/.test(await cacheStatus(url, after));
    });
    expect((await sendJson(`${url}/api/payment?reference=order-1`, 'POST', MONEY)).status).toBe(200);
  });

  /**
   * Bug: one client filled Redis with keys that it never paid with, and nobody could pay until they expired. Cause: only references are
   * free of memory. Fix: above 85 % of its memory the client that issued most gets no further key (rule A6).
   */
  test('that leave little memory refuse unpaid keys to the client that issued most, and nothing else', async () => {
    const stores = await openTestStores(['--maxmemory-policy', 'noeviction']);
    const { url } = await stores.serve(keys.environment);
    const generate = (credential: Credential, query = '') =>
      ask(`${url}/api/server-generated/generate-key${query}`, { headers: credential.headers });
    const paid = async (credential: Credential, query: string) =>
      (await sendJson(`${url}/api/payment${query}`, 'POST', MONEY, credential.headers)).status;
    for (let key = 0; key < 50; key += 1) expect((await generate(greedy)).status).toBe(200);
    const { client } = stores.redis;
    for (let piece = 0; piece < 32; piece += 1) await client.set(`somebody-elses:${piece}`, 'x'.repeat(MIB));
    const used = Number(/^used_memory:(\d+)/m.exec(await client.info('memory'))?.[1]);
    await client.config('SET', 'maxmemory', Math.round(used / 0.9));

    await expect.poll(async () => (await generate(greedy)).status).toBe(503);
    expectError(await generate(greedy), 503, /nearly full of keys that were not paid with/);
    expect((await generate(shop)).status).toBe(200);
    expect((await generate(greedy, '?reference=order-1')).status).toBe(200);
    expect(await paid(greedy, '?reference=order-1')).toBe(200);
    expect((await ask(`${url}/readyz`)).json()).toMatchObject({ status: 'degraded', keyValueStore: 'full' });

    await client.config('SET', 'maxmemory', 0);
    await expect.poll(async () => (await generate(greedy)).status).toBe(200);
    expect((await ask(`${url}/readyz`)).json()).toMatchObject({ status: 'ready', keyValueStore: 'up' });
  });

  /**
   * Bug: a Redis whose memory was full refused every key, and metrics and log called it up. Cause: it answers `INFO`. Fix: the
   * watch writes something.
   */
  test('that leave no memory count as a Redis that is down, until there is room', async () => {
    const { redis, serve } = await openTestStores();
    const { url, logs } = await serve();
    const isUp = async () => sumOf(await scrape(url), 'idempay_store_up', { store: 'redis' });
    await givenPaid(url);
    await redis.client.config('SET', 'maxmemory', 1);
    await expect.poll(isUp).toBe(0);
    // On a busy machine an answer may have come too late before.
    const reasons = () => logs.filter(({ store }) => store === 'Redis').map(({ reason }) => reason);
    await expect.poll(reasons).toContainEqual(expect.stringContaining('OOM'));
    expect((await ask(`${url}/api/server-generated/generate-key`)).status).toBe(503);
    await redis.client.config('SET', 'maxmemory', 0);
    await expect.poll(isUp).toBe(1);
    await givenPaid(url);
  });
});

/**
 * Bug: a Redis that hung longer than a command's deadline answered NOSCRIPT to the release of a lock after its caller had given up. So the
 * text was never sent, and the lock stood for its whole lease. Cause: scripts were taught when they were first run. Fix: at each
 * connection.
 */
test('every script is known to Redis once the service is connected, and again after a restart of Redis', async () => {
  const { redis, serve } = await openTestStores();
  await serve();
  const digests = readScripts().map(({ digest }) => digest);
  const untilAllAreKnown = () =>
    until('every script to be known', DEADLINE_MS, async () => {
      return !((await redis.client.script('EXISTS', ...digests)) as number[]).includes(0);
    });
  await untilAllAreKnown();
  await redis.kill();
  await redis.start();
  await untilAllAreKnown();
});

/**
 * Bug: two databases on one Redis had the same names for their cache entries and records, so the second was answered with
 * the first one's transaction, with `cache-status: hit`.
 * Cause: names held the id alone, and every database counts its transactions from the same number.
 * Fix: all names begin with the deployment's id, which its database holds (rule O5).
 */
test('two databases on one Redis know neither the keys nor the transactions of each other, and show their own', async () => {
  const second = await createSharedDatabase();
  onTestFinished(() => second.drop());
  // Closed before the database is dropped.
  const stores = await openTestStores();
  const [one, other] = [(await stores.serve()).url, (await stores.serve({ DATABASE_URL: second.url })).url];

  const ours = await givenTransaction(one);
  const { transactionId: id } = ours;
  await readTransaction(one, id);
  expect(await cacheStatus(one, id)).toMatch(/hit/);
  expectUnknownTransaction(await readTransaction(other, id), id);
  const theirs = await givenTransaction(other, { fromAccount: 'somebody', toAccount: 'else' });
  expect(theirs.transactionId).toBe(id);
  for (const url of [other, other]) expect((await readTransaction(url, id)).json()).toEqual(theirs);
  expect((await readTransaction(one, id)).json()).toEqual(ours);
  expect(await cacheStatus((await stores.serve()).url, id)).toMatch(/hit/);

  const key = await generateKey(one);
  await expectKeyValue(one, key, 'KEY GENERATED');
  expectError(await keyRecord(other, key), 404);
  expectError(await pay(other, key), 400, INVALID_KEY);
  await expectKeyValue(one, key, expectFirst(await pay(one, key)));
  expectError(await paymentStatus(other, key), 404);
  expectError(await pay(other, key), 400, INVALID_KEY);
});

/**
 * The key as the names of what is kept of its payment have it. The last commits of a process tell the key too, in another form:
 * they are remembered alongside the payment, nothing waits for that, and so it may follow the answer.
 */
function inNames(key: string): string {
  return `{${key}}`;
}

describe('what the stores are asked', async () => {
  const stores = await openDistributedStores();
  afterAll(() => stores.close());
  const { wires } = stores;
  const { url } = await stores.serve(wires.environment);
  await untilFullService(url);

  // For a repeat of a payment under way the row is asked as well: `distributed-lock-left.test.ts`.
  test('two round trips to Redis for a first payment, one for a new key, and none for what this process has finished', async () => {
    // A database has simulated payments or real ones.
    const own = await openDistributedStores();
    onTestFinished(() => own.close());
    const { wires } = own;
    const { environment, release } = await startHoldingProcessor();
    const { url } = await own.serve({ ...wires.environment, ...environment });
    const before = await generateKey(url);
    release(before);
    await untilPaid(url, before);
    const issues = wires.redis.count('KEY GENERATED');
    const key = await generateKey(url);
    expect(issues()).toBe(1);
    const trips = wires.redis.count(inNames(key));
    const { finished } = await beginPayment(url, key);
    expect(trips()).toBe(1 + 1);
    release(key);
    const id = expectFirst(await finished);
    expect(trips()).toBe(2 + 1);
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);
    expect(trips()).toBe(2 + 1);
  });

  test('one round trip to Redis for the first repeat in another process, and then none, also for the status', async () => {
    const other = await stores.serve(wires.environment);
    await untilFullService(other.url);
    const key = await generateKey(url);
    const id = expectFirst(await pay(url, key));
    const trips = wires.redis.count(inNames(key));
    for (let time = 0; time < 2; time += 1) expectReplay(await pay(other.url, key), id);
    expectCompleted(await paymentStatus(other.url, key), id);
    expect(trips()).toBe(1);
  });

  test('one round trip to Redis for a cached read and two for a status change', async () => {
    const { transactionId: id } = await givenTransaction(url);
    await readTransaction(url, id);
    const trips = wires.redis.count(`transactionCache::${id}`);
    expect(await cacheStatus(url, id)).toBe('transactionCache; hit');
    expect(trips()).toBe(1);
    expect((await changeStatus(url, id, 'FLAGGED')).status).toBe(200);
    expect(trips()).toBe(1 + 2);
  });

  test('one load of a row for all readers of all services that miss it together', async () => {
    const others = await Promise.all([stores.serve(wires.environment), stores.serve(wires.environment)]);
    const urls = [url, ...others.map((other) => other.url)];
    const loads = wires.postgres.count(executionOf('find_transaction'));
    for (let ofOneLoad = 0, round = 0; ofOneLoad < ROUNDS_OF_ONE_LOAD; round += 1) {
      expect(round, `only ${ofOneLoad} rounds had one load`).toBeLessThan(MOST_ROUNDS);
      const { transactionId: id } = await givenTransaction(url);
      const before = loads();
      const begun = performance.now();
      const readers = Array.from({ length: READERS }, (_, reader) => urls[reader % urls.length] as string);
      const answers = await Promise.all(readers.map((reader) => readTransaction(reader, id)));
      const tookMs = performance.now() - begun;
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
      const loaded = loads() - before;
      if (loaded === 1) ofOneLoad += 1;
      else expect(tookMs, `the time of a round with ${loaded} loads`).toBeGreaterThanOrEqual(READER_WAITS_MS);
    }
  });

  test('no key of others who share Redis, and nothing that walks or empties it', async () => {
    const { client } = stores.redis;
    await client.acl('SETUSER', 'limited', 'on', '>secret', 'resetchannels', ...RIGHTS);
    const environment = { REDIS_URL: stores.redis.url.replace('://', '://limited:secret@') };
    const services = await Promise.all([stores.serve(environment), stores.serve(environment)]);
    const [one = '', another = ''] = services.map((service) => service.url);
    // Every connection teaches the scripts, which the service can do without: what is refused is in the log.
    expect(JSON.stringify(await client.acl('LOG'))).toContain('script|load');
    await client.acl('LOG', 'RESET');
    await client.script('FLUSH');

    // Every endpoint, with the outcomes that take other ways through the scripts.
    const key = await generateKey(one);
    await paymentStatus(one, key);
    await Promise.all([pay(one, key), pay(another, key)]);
    expectReplay(await pay(another, key));
    await pay(one, await generateKey(one), { amount: 'none' });
    await pay(one, UNKNOWN_KEY);
    await paymentStatus(one, key);
    const { transactionId: id } = await givenTransaction(one);
    await Promise.all([one, another].map((reader) => readTransaction(reader, id)));
    await changeStatus(one, id, 'FLAGGED');
    await readTransaction(another, id);
    await changeStatus(one, id + 1_000, 'FLAGGED');
    await listTransactions(one);
    await deleteTransaction(one, id);
    await readTransaction(one, id);
    const paths = ['', '/stats', `/key/${key}`, `/key/transactionCache::${id}`];
    for (const path of paths) await ask(`${one}/api/health/redis${path}`);
    expect(await client.acl('LOG')).toEqual([]);
  });
});
