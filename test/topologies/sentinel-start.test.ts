import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateKey, pay } from '../support/http-client.js';
import { type SentinelTrio, startSentinelTrio } from '../support/servers/sentinel.js';
import { createSharedDatabase } from '../support/servers/shared-database.js';
import { startService } from '../support/service.js';
import { until } from '../support/until.js';

const CONNECT_DEADLINE_MS = 20_000;

let trio: SentinelTrio;
beforeAll(async () => {
  trio = await startSentinelTrio();
});
afterAll(() => trio?.close());

/**
 * Bug: a Sentinel that took the connection and never answered kept the service from asking the next one, for ever.
 * Cause: ioredis has no deadline for what it asks Sentinels unless `sentinelCommandTimeout` is set.
 * Fix: the deadline of every other command.
 */
test('a Sentinel that hangs keeps nobody from finding the master', async () => {
  const database = await createSharedDatabase();
  trio.pauseFirst();
  const service = await startService({ REDIS_URL: trio.url, DATABASE_URL: database.url });
  try {
    const key = await until('a key', CONNECT_DEADLINE_MS, () => generateKey(service.url).catch(() => undefined));
    expect((await pay(service.url, key)).status).toBe(200);
  } finally {
    await service.kill();
    await database.drop();
  }
});
