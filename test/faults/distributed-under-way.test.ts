import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import { beginPayment, expectCompleted, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { APPEND_ONLY, openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

const LEASE = { LOCK_TTL_SECONDS: '2' };
/** A charge that is surely under way when the test looks, and over soon after; under a lease that is renewed meanwhile. */
const SLOW = { ...LEASE, PROCESSOR_DELAY_MS: '1500' };
/** A lease, a round of recovery and a busy machine. */
const OUTCOME_DEADLINE_MS = 30_000;

describe('a payment', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;

  beforeEach(async () => {
    stores = await openStoppableStores(APPEND_ONLY);
  }, 90_000);
  afterEach(() => stores?.close());

  it('under way when Redis is killed is answered once PostgreSQL has it, and repeated from there', async () => {
    const { url } = await stores.start(SLOW);
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    await stores.redis.kill();
    const id = expectFirst(await finished);
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);

    await stores.redis.start();
    // The append-only file brings back the lock of the payment that is over: until its lease ends.
    const repeat = await until('a repeat', OUTCOME_DEADLINE_MS, async () => {
      const answer = await pay(url, key);
      return answer.status === 200 && answer;
    });
    expectReplay(repeat, id);
    expectCompleted(await paymentStatus(url, key), id);
  }, 90_000);

  it('under way when PostgreSQL is stopped is never called failed, and has one outcome when it is back', async () => {
    const { url } = await stores.start(SLOW);
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    await stores.postgres.stopImmediately();
    const answer = await finished;
    expect([503, 504], answer.text).toContain(answer.status);
    await stores.postgres.start();
    await expectOneOutcome(url, key);
  }, 90_000);

  it('under way in a process that is killed is finished by another once the lease is over', async () => {
    const [dying, other] = await Promise.all([
      stores.start({ ...SLOW, PROCESSOR_DELAY_MS: '60000' }),
      stores.start(LEASE),
    ]);
    const key = await generateKey(dying.url);
    const { finished } = await beginPayment(dying.url, key);
    const cut = finished.catch(() => 'cut');
    // The lock is taken before the claim; only what is claimed is abandoned by the kill.
    await until('the claim', OUTCOME_DEADLINE_MS, async () => {
      return (await stores.sql('SELECT 1 FROM idempay.payments WHERE key = $1', [key])).length > 0;
    });
    await dying.kill();
    expect(await cut).toBe('cut');
    // Without any repeat: recovery looks for what was abandoned.
    const status = await until('recovery to finish it', OUTCOME_DEADLINE_MS, async () => {
      const answer = await paymentStatus(other.url, key);
      return answer.status === 200 && answer;
    });
    expectReplay(await pay(other.url, key), expectCompleted(status));
  }, 90_000);

  async function expectOneOutcome(url: string, key: string): Promise<void> {
    const repeat = await until('an outcome', OUTCOME_DEADLINE_MS, async () => {
      const again = await pay(url, key);
      if (again.status !== 200) expect([409, 503, 504]).toContain(again.status);
      return again.status === 200 && again;
    });
    const id = transactionIdOf(repeat) as string;
    expectReplay(await pay(url, key), id);
    expect(await stores.sql('SELECT transaction_id, state FROM idempay.payments WHERE key = $1', [key])).toEqual([
      { transaction_id: id, state: 'COMPLETED' },
    ]);
  }
});
