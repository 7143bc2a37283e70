import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService } from '../../testkit/processes/service.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const SCRIPTS = new URL('../../dist/deployments/distributed/redis/scripts/', import.meta.url);
const DEADLINE_MS = 15_000;

/**
 * Bug: a Redis that hung longer than a command's deadline answered NOSCRIPT to the release of a lock after its caller had
 * given up, so the text was never sent and the lock stood for its whole lease. Cause: scripts were taught when they were
 * first run. Fix: at each connection.
 */
describe('the scripts of the key store and the cache', () => {
  let redis: RedisServer;
  let service: Service;
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;

  beforeAll(async () => {
    [redis, database] = await Promise.all([startRedis(), createSharedDatabase()]);
    service = await startService({ REDIS_URL: redis.url, DATABASE_URL: database.url });
  });
  afterAll(async () => {
    await service.kill();
    await redis.close();
    await database.drop();
  });

  async function untilAllAreKnown(): Promise<void> {
    const digests = readdirSync(SCRIPTS).map((file) =>
      createHash('sha1')
        .update(readFileSync(new URL(file, SCRIPTS)))
        .digest('hex'),
    );
    expect(digests.length).toBeGreaterThan(5);
    await until('every script to be known', DEADLINE_MS, async () => {
      const known = (await redis.client.script('EXISTS', ...digests)) as number[];
      return known.every((each) => each === 1);
    });
  }

  test('are known to Redis as soon as the service is connected', untilAllAreKnown);

  test('are known to it again after its restart, before anything was asked', async () => {
    await redis.kill();
    await redis.start();
    await untilAllAreKnown();
  });
});
