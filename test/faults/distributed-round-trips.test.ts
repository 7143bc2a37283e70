import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectReplay,
  INVALID_KEY,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  listTransactions,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

const PREFIX = 'idempay:';
const DEADLINE_MS = 10_000;

/** Where the keys, or the channels, are among a command's words; what is not here is not for a service that shares its Redis. */
const KEYS_OF: Readonly<Record<string, (words: readonly string[]) => readonly string[]>> = {
  evalsha: scriptKeys,
  eval: scriptKeys,
  del: (words) => words.slice(1),
  exists: (words) => words.slice(1),
  subscribe: (words) => words.slice(1),
  publish: second,
  ...Object.fromEntries(
    ['hget', 'hgetall', 'hmget', 'hset', 'hdel', 'hlen', 'hexists', 'pexpire', 'pexpireat', 'pttl'].map((name) => [
      name,
      second,
    ]),
  ),
  ...Object.fromEntries(['hello', 'client', 'info', 'ping', 'dbsize', 'time'].map((name) => [name, () => []])),
};

interface Command {
  readonly words: readonly string[];
  readonly fromScript: boolean;
}

describe('what Redis is asked', () => {
  let stores: DistributedStores;
  let url: string;
  let monitor: Redis;
  let seen: Command[];
  let marker = 0;

  beforeAll(async () => {
    stores = await openDistributedStores();
    url = (await stores.start()).url;
    // The scripts are known to the server from here on.
    const key = await generateKey(url);
    expectFirst(await pay(url, key));
    expectReplay(await pay(url, key));
    expectError(await pay(url, UNKNOWN_KEY), 400, INVALID_KEY);
    const { transactionId: id } = await givenTransaction(url);
    await readTransaction(url, id);
    await changeStatus(url, id, 'FLAGGED');
  });
  afterAll(() => stores?.close());

  beforeEach(async () => {
    seen = [];
    monitor = await stores.redis.client.duplicate().monitor();
    monitor.on('monitor', (_time: string, words: string[], source: string) => {
      seen.push({ words, fromScript: source === 'lua' });
    });
  });
  afterEach(() => monitor.disconnect());

  /** All commands of the service so far: a command of our own that comes after them is waited for, and left out. */
  async function commands(): Promise<readonly Command[]> {
    marker += 1;
    const mark = `marker-${marker}`;
    await stores.redis.client.echo(mark);
    await until('the monitor to catch up', DEADLINE_MS, () => seen.some(({ words }) => words.includes(mark)));
    return seen.filter(({ words }) => words[0] !== 'echo');
  }

  /** Each is a round trip of its own, for it is sent when the one before has been answered. */
  async function roundTrips(key: string): Promise<number> {
    return (await commands()).filter(({ words, fromScript }) => !fromScript && words.join(' ').includes(key)).length;
  }

  it('is two round trips for a first payment', async () => {
    const key = await generateKey(url);
    await commands();
    seen.length = 0;
    expectFirst(await pay(url, key));
    expect(await roundTrips(key)).toBe(2);
  });

  it('is one round trip for a repeat', async () => {
    const key = await generateKey(url);
    const id = expectFirst(await pay(url, key));
    await commands();
    seen.length = 0;
    expectReplay(await pay(url, key), id);
    expect(await roundTrips(key)).toBe(1);
  });

  // The row is asked as well, which is PostgreSQL's: `distributed-lock-left.test.ts`.
  it('is one round trip for a repeat of a payment that is under way', async () => {
    const { url: slow } = await stores.start({ PROCESSOR_DELAY_MS: '1000' });
    const key = await generateKey(slow);
    await commands();
    seen.length = 0;
    const { finished } = await beginPayment(slow, key);
    expect(await roundTrips(key)).toBe(2);
    expectFirst(await finished);
    expect(await roundTrips(key)).toBe(3);
  });

  it('is one round trip for a new key and one for a payment status', async () => {
    const key = await generateKey(url);
    expect(await roundTrips(key)).toBe(1);
    const id = expectFirst(await pay(url, key));
    await commands();
    seen.length = 0;
    expectCompleted(await paymentStatus(url, key), id);
    expect(await roundTrips(key)).toBe(1);
  });

  it('is one round trip for a cached read and two for a status change', async () => {
    const { transactionId: id } = await givenTransaction(url);
    await readTransaction(url, id);
    await commands();
    seen.length = 0;
    expect((await readTransaction(url, id)).headers['cache-status']).toBe('transactionCache; hit');
    expect(await roundTrips(String(id))).toBe(1);
    expect((await changeStatus(url, id, 'FLAGGED')).status).toBe(200);
    expect(await roundTrips(String(id))).toBe(3);
  });

  it('touches no key of others who share it, and asks for nothing that walks or empties it', async () => {
    const { client } = stores.redis;
    const foreign = await generateKey(url);
    await client.mset({
      [foreign]: 'of others',
      [`{${foreign}}:lock`]: 'of others',
      'transactionCache::7': 'of others',
    });
    const before = await client.mget(foreign, `{${foreign}}:lock`, 'transactionCache::7');
    seen.length = 0;

    await wholeSession();
    const asked = await commands();
    expect(asked.some(({ fromScript }) => fromScript)).toBe(true);
    for (const { words } of asked.filter(({ words }) => !words.includes(foreign) || words[0] !== 'mget')) {
      const keysOf = KEYS_OF[words[0]?.toLowerCase() ?? ''];
      expect(keysOf, `the command ${words.join(' ')}`).toBeDefined();
      expect(keysOf?.(words).filter((key) => !key.startsWith(PREFIX))).toEqual([]);
    }
    expect(await client.mget(foreign, `{${foreign}}:lock`, 'transactionCache::7')).toEqual(before);
    const keys = await client.keys('*');
    expect(keys.filter((key) => !key.startsWith(PREFIX)).length).toBe(3);
  });

  /** Every endpoint, with the outcomes that take other ways through the scripts; also right after the server forgot them. */
  async function wholeSession(): Promise<void> {
    const { url: another } = await stores.start();
    await stores.redis.client.script('FLUSH').then(() => {
      seen = seen.filter(({ words }) => words[0] !== 'script');
    });
    for (const each of [url, another]) {
      const key = await generateKey(each);
      await paymentStatus(each, key);
      await Promise.all([pay(each, key), pay(url, key)]);
      await pay(another, key);
      await pay(each, await generateKey(each), { amount: 'none' });
      await pay(each, UNKNOWN_KEY);
      await paymentStatus(each, key);

      const { transactionId: id } = await givenTransaction(each);
      await Promise.all([readTransaction(each, id), readTransaction(url, id), readTransaction(another, id)]);
      await changeStatus(each, id, 'FLAGGED');
      await readTransaction(another, id);
      await ask(`${each}/api/health/redis/key/transactionCache::${id}`);
      await ask(`${each}/api/health/redis/key/transactionCache::7`);
      await changeStatus(each, id + 1_000, 'FLAGGED');
      await listTransactions(each);
      await deleteTransaction(each, id);
      await readTransaction(each, id);
      for (const path of ['redis', 'redis/stats', `redis/key/${key}`]) await ask(`${each}/api/health/${path}`);
    }
  }
});

function scriptKeys(words: readonly string[]): readonly string[] {
  return words.slice(3, 3 + Number(words[2]));
}

function second(words: readonly string[]): readonly string[] {
  return words.slice(1, 2);
}
