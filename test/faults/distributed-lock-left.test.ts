import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectInProgress, expectReplay } from '../../testkit/client/payment-answers.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import type { Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

/** What was acknowledged is on the disk, so that a lock comes back with the file. */
const EVERY_WRITE_ON_DISK = ['--appendonly', 'yes', '--appendfsync', 'always'];
const CHARGE_MS = '1500';
const DEADLINE_MS = 20_000;
const REPEATS = 100;
/** A lease that outlives the test, as long as a setting allows: a repeat must not have to wait for its end. */
const LONG_LEASE = { LOCK_TTL_SECONDS: '86400' };
const INVALID_CONTENT = { amount: 'none' };

/**
 * Bug: after a first answer of 200 every repeat got 409 until the lease ended. Cause: Redis lost or refused the end of the
 * lock, the lock alone decided, and nobody repeated what had failed. Fix: before every 409 the row is asked, a script deletes
 * the lock before it writes the value, and what failed is repeated in the background (decisions P17).
 */
describe('a lock that is left in Redis', () => {
  let stores: DistributedStores;
  let owner: Service;
  let other: Service;

  beforeEach(async () => {
    stores = await openDistributedStores(EVERY_WRITE_ON_DISK);
    [owner, other] = await Promise.all([
      stores.start({ ...LONG_LEASE, PROCESSOR_DELAY_MS: CHARGE_MS }),
      stores.start(LONG_LEASE),
    ]);
  });
  afterEach(() => stores.close());

  async function givenUnderWay(): Promise<{ key: string; first: Promise<Answer>; lock: string; record: string }> {
    const key = await generateKey(owner.url);
    const { lock, record } = (await stores.keyNames()).payment(key);
    const first = pay(owner.url, key);
    await until('the payment to be claimed', DEADLINE_MS, async () => {
      return (await stores.sql('SELECT FROM idempay.payments WHERE key = $1', [key])).length === 1;
    });
    expect(await stores.redis.client.exists(lock)).toBe(1);
    return { key, first, lock, record };
  }

  async function expectEverybodyReplays(url: string, key: string, id: string): Promise<void> {
    for (const body of [undefined, undefined, INVALID_CONTENT]) expectReplay(await pay(url, key, body), id);
    expectReplay(await pay(url, key, undefined, { headers: { Prefer: 'wait=5' } }), id);
  }

  it('by a Redis that was killed during the charge keeps no repeat from the outcome, and is removed by its owner', async () => {
    const { key, first, lock, record } = await givenUnderWay();
    await stores.redis.kill();
    const id = expectFirst(await first);
    for (const { url } of [owner, other]) await expectEverybodyReplays(url, key, id);

    // Stopped, so that the lock is still there when the other process asks Redis again.
    owner.signal('SIGSTOP');
    await stores.redis.start();
    expect(await stores.redis.client.exists(lock)).toBe(1);
    await until('the other process to be connected', DEADLINE_MS, async () => {
      return (await generateKey(other.url).catch(() => undefined)) !== undefined;
    });
    await expectEverybodyReplays(other.url, key, id);
    expect(await stores.redis.client.exists(lock)).toBe(1);

    owner.signal('SIGCONT');
    await until('the lock to be removed', DEADLINE_MS, async () => (await stores.redis.client.exists(lock)) === 0);
    expect(await stores.redis.client.hget(record, 'value')).toBe(id);
    for (const { url } of [owner, other]) await expectEverybodyReplays(url, key, id);
  });

  it('by no Redis that is out of memory: the lock ends and the outcome is written', async () => {
    const { key, first, lock, record } = await givenUnderWay();
    await stores.redis.client.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
    const id = expectFirst(await first);
    expect(await stores.redis.client.exists(lock)).toBe(0);
    expect(await stores.redis.client.hget(record, 'value')).toBe(id);
    for (const { url } of [owner, other]) await expectEverybodyReplays(url, key, id);
  });

  it('costs a repeat one question to Redis and one to the row, which a hundred repeats share', async () => {
    const wires = await openWires(stores);
    try {
      const { url } = await stores.start({ ...wires.environment, ...LONG_LEASE });
      const { key, first } = await givenUnderWay();
      expectInProgress(await pay(url, key), 86_400);
      const asked = wires.postgres.count(executionOf('find_payments'));
      const begun = await commandsOfScripts();
      const repeats = await Promise.all(Array.from({ length: REPEATS }, () => pay(url, key)));
      for (const repeat of repeats) expectInProgress(repeat, 86_400);
      // Processes ask a few things by themselves; two questions for each repeat would be twice as many.
      expect((await commandsOfScripts()) - begun).toBeLessThan(1.5 * REPEATS);
      expect(asked()).toBeGreaterThan(0);
      expect(asked()).toBeLessThan(REPEATS / 2);
      expectFirst(await first);
    } finally {
      await wires.close();
    }
  });

  it('is not believed while the row cannot be asked: 503, and nothing is said of the payment', async () => {
    const wires = await openWires(stores);
    try {
      const { url } = await stores.start({ ...wires.environment, ...LONG_LEASE });
      const { key, first } = await givenUnderWay();
      expectInProgress(await pay(url, key), 86_400);
      wires.postgres.cutOff();
      for (const body of [undefined, INVALID_CONTENT]) expectError(await pay(url, key, body), 503);
      wires.postgres.heal();
      const id = expectFirst(await first);
      await until('a repeat to be told the outcome', DEADLINE_MS, async () => (await pay(url, key)).status === 200);
      expectReplay(await pay(url, key), id);
    } finally {
      await wires.close();
    }
  });

  async function commandsOfScripts(): Promise<number> {
    const stats = await stores.redis.client.info('commandstats');
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
  }
});
