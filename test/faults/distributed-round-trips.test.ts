import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectReplay,
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

type KeysOf = (words: readonly string[]) => readonly string[];
const inScript: KeysOf = (words) => words.slice(3, 3 + Number(words[2]));
const second: KeysOf = (words) => words.slice(1, 2);
const allButFirst: KeysOf = (words) => words.slice(1);
const none: KeysOf = () => [];
/** Where the keys, or the channels, are among a command's words; what is not here is not for a service that shares its Redis. */
const KEYS_OF: readonly (readonly [commands: string, keysOf: KeysOf])[] = [
  ['evalsha eval', inScript],
  ['del exists subscribe', allButFirst],
  ['publish hget hgetall hmget hset hdel hlen hexists pexpire pexpireat pttl', second],
  ['hello client info ping dbsize time', none],
];

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
    url = (await stores.serve()).url;
    // Scripts that were not run yet may cost one round trip more.
    await wholeSession(url);
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
  async function roundTrips(key: string | number, step?: () => Promise<unknown>): Promise<number> {
    if (step) {
      await commands();
      seen.length = 0;
      await step();
    }
    const asked = await commands();
    return asked.filter(({ words, fromScript }) => !fromScript && words.join(' ').includes(String(key))).length;
  }

  it('is two round trips for a first payment, one for its repeat, its status, and for a new key', async () => {
    const key = await generateKey(url);
    expect(await roundTrips(key)).toBe(1);
    let id = '';
    const first = async () => {
      id = expectFirst(await pay(url, key));
    };
    expect(await roundTrips(key, first)).toBe(2);
    expect(await roundTrips(key, async () => expectReplay(await pay(url, key), id))).toBe(1);
    expect(await roundTrips(key, async () => expectCompleted(await paymentStatus(url, key), id))).toBe(1);
  });

  // The row is asked as well, which is PostgreSQL's: `distributed-lock-left.test.ts`.
  it('is one round trip for a repeat of a payment that is under way', async () => {
    const { url: slow } = await stores.serve({ PROCESSOR_DELAY_MS: '500' });
    const key = await generateKey(slow);
    await commands();
    seen.length = 0;
    const { finished } = await beginPayment(slow, key);
    expect(await roundTrips(key)).toBe(2);
    expectFirst(await finished);
    expect(await roundTrips(key)).toBe(3);
  });

  it('is one round trip for a cached read and two for a status change', async () => {
    const { transactionId: id } = await givenTransaction(url);
    await readTransaction(url, id);
    const read = async () =>
      expect((await readTransaction(url, id)).headers['cache-status']).toBe('transactionCache; hit');
    expect(await roundTrips(id, read)).toBe(1);
    const change = async () => expect((await changeStatus(url, id, 'FLAGGED')).status).toBe(200);
    expect(await roundTrips(id, change)).toBe(2);
  });

  it('touches no key of others who share it, and asks for nothing that walks or empties it', async () => {
    const { client } = stores.redis;
    const key = await generateKey(url);
    const foreign = [key, `{${key}}:lock`, 'transactionCache::7'];
    await client.mset(Object.fromEntries(foreign.map((name) => [name, 'of others'])));
    const { url: another } = await stores.serve();
    await client.script('FLUSH');
    await commands();
    seen.length = 0;

    for (const each of [url, another]) await wholeSession(each, another);
    const asked = await commands();
    expect(asked.some(({ fromScript }) => fromScript)).toBe(true);
    for (const { words } of asked) {
      const command = words[0]?.toLowerCase() ?? '';
      const keysOf = KEYS_OF.find(([names]) => names.split(' ').includes(command))?.[1];
      expect(keysOf, `the command ${words.join(' ')}`).toBeDefined();
      expect(keysOf?.(words).filter((name) => !name.startsWith(PREFIX))).toEqual([]);
    }
    expect(await client.mget(...foreign)).toEqual(['of others', 'of others', 'of others']);
    const keys = await client.keys('*');
    expect(keys.filter((name) => !name.startsWith(PREFIX)).sort()).toEqual([...foreign].sort());
  });

  /** Every endpoint, with the outcomes that take other ways through the scripts. */
  async function wholeSession(each: string, another = each): Promise<void> {
    const key = await generateKey(each);
    await paymentStatus(each, key);
    await Promise.all([pay(each, key), pay(url, key)]);
    await pay(another, key);
    await pay(each, await generateKey(each), { amount: 'none' });
    await pay(each, UNKNOWN_KEY);
    await paymentStatus(each, key);

    const { transactionId: id } = await givenTransaction(each);
    await Promise.all([each, url, another].map((reader) => readTransaction(reader, id)));
    await changeStatus(each, id, 'FLAGGED');
    await readTransaction(another, id);
    await changeStatus(each, id + 1_000, 'FLAGGED');
    await listTransactions(each);
    await deleteTransaction(each, id);
    await readTransaction(each, id);
    const paths = ['redis', 'redis/stats', `redis/key/${key}`, `redis/key/transactionCache::${id}`];
    for (const path of [...paths, 'redis/key/transactionCache::7']) await ask(`${each}/api/health/${path}`);
  }
});
