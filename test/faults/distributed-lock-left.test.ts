import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectInProgress, expectReplay } from '../../testkit/client/payment-answers.js';
import { APPEND_ONLY, executionOf, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const REPEATS = 100;
/** A lease that outlives the test, as long as a setting allows: a repeat must not have to wait for its end. */
const LEASE_SECONDS = 86_400;
const INVALID_CONTENT = { amount: 'none' };

const processor = await startReferenceProcessor();
const stores = await openDistributedStores(APPEND_ONLY);
afterAll(() => Promise.all([stores.close(), processor.close()]));
const { wires } = stores;
const lease = { LOCK_TTL_SECONDS: `${LEASE_SECONDS}` };
const settings = { ...lease, PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '60000' };
const { url: owner } = await stores.serve({ ...settings, REDIS_URL: wires.environment.REDIS_URL });
const { url: other } = await stores.serve({ ...settings, DATABASE_URL: wires.environment.DATABASE_URL });

/**
 * Bug: after a first answer of 200 every repeat got 409 until the lease ended. Cause: Redis lost or refused the end of the
 * lock, the lock alone decided, and nobody repeated what had failed. Fix: before every 409 the row is asked, a script deletes
 * the lock before it writes the value, and what failed is repeated in the background (rule P17).
 */
describe('a lock that is left in Redis', () => {
  let key: string;
  let first: ReturnType<typeof pay>;
  let lock: string;
  let record: string;

  /** A payment whose charge is under way until `expectEnd`. */
  beforeEach(async () => {
    processor.pause();
    key = await generateKey(owner);
    ({ lock, record } = (await stores.keyNames()).payment(key));
    first = pay(owner, key);
    const claimed = 'SELECT 1 FROM idempay.payments WHERE key = $1';
    await until('the claim', DEADLINE_MS, async () => (await stores.sql(claimed, [key])).length > 0);
    expect(await stores.redis.client.exists(lock)).toBe(1);
  });
  // A test that failed may have left any state behind.
  afterEach(async () => {
    processor.resume();
    wires.redis.heal();
    await stores.redis.client.config('SET', 'maxmemory', '0').catch(() => stores.redis.start());
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });

  async function expectEnd(): Promise<string> {
    processor.resume();
    return expectFirst(await first);
  }

  async function expectReplays(url: string, id: string): Promise<void> {
    for (const body of [undefined, INVALID_CONTENT]) expectReplay(await pay(url, key, body), id);
    expectReplay(await pay(url, key, undefined, { headers: { Prefer: 'wait=5' } }), id);
  }

  it('by a Redis that was killed during the charge keeps no repeat from the outcome, and is removed by its owner', async () => {
    const { redis } = stores;
    await redis.kill();
    const id = await expectEnd();
    for (const url of [owner, other]) await expectReplays(url, id);

    // The owner stays cut off, so that the lock is still there when the other service asks Redis again.
    wires.redis.cutOff();
    await redis.start();
    await until('the other service to be connected', DEADLINE_MS, () => generateKey(other).catch(() => undefined));
    await expectReplays(other, id);
    expect(await redis.client.exists(lock)).toBe(1);

    wires.redis.heal();
    await until('the lock to be removed', DEADLINE_MS, async () => (await redis.client.exists(lock)) === 0);
    expect(await redis.client.hget(record, 'value')).toBe(id);
    for (const url of [owner, other]) await expectReplays(url, id);
  });

  it('by no Redis that is out of memory: the lock ends and the outcome is written', async () => {
    const { client } = stores.redis;
    await client.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
    const id = await expectEnd();
    expect(await client.exists(lock)).toBe(0);
    expect(await client.hget(record, 'value')).toBe(id);
    for (const url of [owner, other]) await expectReplays(url, id);
  });

  it('costs a repeat one question to Redis and one to the row, which a hundred repeats share', async () => {
    expectInProgress(await pay(other, key), LEASE_SECONDS);
    const asked = wires.postgres.count(executionOf('find_payments'));
    // A question looks at the lock and at the record.
    const questions = async () => (await stores.redis.timesRun('hmget')) / 2;
    const before = await questions();
    const repeats = await Promise.all(Array.from({ length: REPEATS }, () => pay(other, key)));
    for (const repeat of repeats) expectInProgress(repeat, LEASE_SECONDS);
    // Services ask a few things by themselves; two questions for each repeat would be twice as many.
    const askedOfRedis = (await questions()) - before;
    expect(askedOfRedis).toBeGreaterThanOrEqual(REPEATS);
    expect(askedOfRedis).toBeLessThan(1.5 * REPEATS);
    expect(asked()).toBeGreaterThan(0);
    expect(asked()).toBeLessThan(REPEATS / 2);
    await expectEnd();
  });
});
