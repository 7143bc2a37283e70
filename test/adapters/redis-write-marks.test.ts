import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadScript } from '#idempay/deployments/distributed/redis/redis-script.js';
import { LONG_MS, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { NAMES } from '../../testkit/protocol/redis-process.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { pause } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * Bug: the mark of a writer that died stood for as long as others went on writing the same transaction, which was then
 * cached no more.
 * Cause: each mark lengthened the life of the hash that holds all marks of the transaction, dead ones included.
 * Fix: each mark has a deadline of its own.
 */
describe('the write marks of one transaction in Redis', () => {
  let redis: RedisServer;
  const mark = loadScript('cache-mark');
  const lift = loadScript('cache-lift');
  const lookUp = loadScript('cache-look-up');

  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.close());

  const keysOf = (id: number) => Object.values(NAMES.cached(id));
  const put = (id: number, token: string, lifeMs: number) =>
    mark(redis.client, keysOf(id), [token, lifeMs, 'database']);
  const write = (id: number, token: string, version: number) =>
    lift(redis.client, keysOf(id), [token, version, `version ${version}`, LONG_MS, 'database']);
  const look = (id: number) => lookUp(redis.client, keysOf(id), ['token', LONG_MS, 'database']);

  test('each end by themselves: that of a writer that died does not live on by later writes', async () => {
    await put(1, 'orphan', SHORT_MS);
    await put(1, 'first', LONG_MS);
    await write(1, 'first', 2);
    expect(await look(1), 'the write of the dead may still commit').toEqual(['pass']);
    await untilPast(SHORT_MS);

    await put(1, 'second', LONG_MS);
    await write(1, 'second', 3);
    expect(await look(1)).toEqual(['hit', 'version 3']);
  });

  test('of a write that was under way with one that died leave nothing that may be older than the row', async () => {
    await put(2, 'under way', LONG_MS);
    await put(2, 'orphan', SHORT_MS);
    await untilPast(SHORT_MS);
    await write(2, 'under way', 2);
    expect(await look(2)).toEqual(['pass']);
  });

  test('do not lengthen each other while writes go on', async () => {
    await put(3, 'orphan', 4 * SHORT_MS);
    const endsBy = performance.now() + 4 * SHORT_MS;
    let version = 1;
    let found: unknown = ['pass'];
    while (JSON.stringify(found) === '["pass"]' && performance.now() < endsBy + LONG_MS) {
      version += 1;
      await put(3, `write ${version}`, 4 * SHORT_MS);
      await write(3, `write ${version}`, version);
      found = await look(3);
      await pause(SHORT_MS / 4);
    }
    expect(found).toEqual(['hit', `version ${version}`]);
    expect(performance.now()).toBeGreaterThan(endsBy - SHORT_MS);
  });
});
