import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

/** A watch that looks every few seconds has looked twice by then. */
const WATCHED_MS = 15_000;
const MIB = 1024 * 1024;

/** What the service says and does about a Redis that is not set as it should be. */
describe('the settings of Redis', () => {
  let redis: RedisServer | undefined;
  let service: Service | undefined;
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;

  beforeEach(async () => {
    database = await createSharedDatabase();
  });
  afterEach(async () => {
    await service?.kill();
    await redis?.close();
    await database.drop();
  });

  async function serveOn(settings: readonly string[]): Promise<{ redis: RedisServer; service: Service }> {
    redis = await startRedis(settings);
    service = await startService({ REDIS_URL: redis.url, DATABASE_URL: database.url });
    return { redis, service };
  }

  function warningsOf(started: Service): string[] {
    return started.logs
      .filter(({ level, msg }) => level === 40 && msg?.startsWith('Redis'))
      .map(({ msg }) => msg ?? '');
  }

  test('that may evict keys, or forget them in a restart, are warned of at start', async () => {
    const { service } = await serveOn(['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru']);
    await until('both warnings', WATCHED_MS, () => warningsOf(service).length >= 2);
    expect(warningsOf(service).join('\n')).toMatch(/maxmemory-policy is allkeys-lru/);
    expect(warningsOf(service).join('\n')).toMatch(/append-only file/);
  });

  test('that are as they should be are not warned of', async () => {
    const { service } = await serveOn(['--maxmemory-policy', 'noeviction', '--appendonly', 'yes']);
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
    expect(warningsOf(service)).toEqual([]);
  });

  test('when memory gets short the cache takes no more, and payments go on', async () => {
    const { redis, service } = await serveOn(['--maxmemory', String(64 * MIB), '--maxmemory-policy', 'noeviction']);
    const before = await givenTransaction(service.url);
    expect((await readTransaction(service.url, before.transactionId)).headers['cache-status']).toMatch(/fwd=miss/);
    expect((await readTransaction(service.url, before.transactionId)).headers['cache-status']).toMatch(/hit/);

    for (let piece = 0; piece < 43; piece += 1) await redis.client.set(`somebody-elses:${piece}`, 'x'.repeat(MIB));
    const after = await givenTransaction(service.url);
    await until('a read that is not kept', WATCHED_MS, async () => {
      const entries = await redis.client.keys(`idempay:*:{transactionCache::${after.transactionId}}`);
      if (entries.length > 0) await redis.client.del(...entries);
      await readTransaction(service.url, after.transactionId);
      const second = await readTransaction(service.url, after.transactionId);
      return /fwd=miss/.test(String(second.headers['cache-status']));
    });
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
  });
});
