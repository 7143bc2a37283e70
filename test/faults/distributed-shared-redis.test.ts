import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, INVALID_KEY } from '../../testkit/client/payment-answers.js';
import {
  expectUnknownTransaction,
  givenTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

/**
 * Bug: two databases on one Redis had the same names for their cache entries and records, so the second was answered with
 * the first one's transaction, with `cache-status: hit`.
 * Cause: names held the id alone, and every database counts its transactions from the same number.
 * Fix: all names begin with the deployment's id, which its database holds (decisions O5).
 */
describe('two databases on one Redis', () => {
  let redis: RedisServer;
  let databases: Awaited<ReturnType<typeof createSharedDatabase>>[];
  let one: Service;
  let other: Service;

  beforeEach(async () => {
    redis = await startRedis();
    databases = await Promise.all([createSharedDatabase(), createSharedDatabase()]);
    [one, other] = (await Promise.all(
      databases.map(({ url }) => startService({ REDIS_URL: redis.url, DATABASE_URL: url })),
    )) as [Service, Service];
  });
  afterEach(async () => {
    await Promise.all([one?.kill(), other?.kill()]);
    await Promise.all([redis.close(), ...databases.map((database) => database.drop())]);
  });

  it('do not read the transactions of each other, also not by the same id', async () => {
    const ours = await givenTransaction(one.url);
    await readTransaction(one.url, ours.transactionId);
    expect((await readTransaction(one.url, ours.transactionId)).headers['cache-status']).toMatch(/hit/);

    expectUnknownTransaction(await readTransaction(other.url, ours.transactionId), ours.transactionId);
    const theirs = await givenTransaction(other.url, { fromAccount: 'somebody', toAccount: 'else' });
    expect(theirs.transactionId).toBe(ours.transactionId);
    for (const service of [other, other]) {
      expect((await readTransaction(service.url, theirs.transactionId)).json<Transaction>()).toEqual(theirs);
    }
    expect((await readTransaction(one.url, ours.transactionId)).json<Transaction>()).toEqual(ours);
  });

  it('do not know the keys of each other, and show their own by the bare key', async () => {
    const key = await generateKey(one.url);
    const asked = (service: Service) => ask(`${service.url}/api/health/redis/key/${key}`);
    expect((await asked(one)).json<{ value: string }>().value).toBe('KEY GENERATED');
    expectError(await asked(other), 404);
    expectError(await pay(other.url, key), 400, INVALID_KEY);

    const id = expectFirst(await pay(one.url, key));
    expect((await asked(one)).json<{ value: string }>().value).toBe(id);
    expectError(await paymentStatus(other.url, key), 404);
    expectError(await pay(other.url, key), 400, INVALID_KEY);
  });

  it('survive a restart with the names that they had', async () => {
    const { transactionId } = await givenTransaction(one.url);
    await readTransaction(one.url, transactionId);
    const again = await startService({ REDIS_URL: redis.url, DATABASE_URL: databases[0]?.url ?? '' });
    try {
      expect((await readTransaction(again.url, transactionId)).headers['cache-status']).toMatch(/hit/);
    } finally {
      await again.kill();
    }
  });
});
