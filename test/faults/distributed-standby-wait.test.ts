import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import type { Service } from '../../testkit/processes/service.js';
import { pause, until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const REPEATS = 4;
/** Room to take the standby away between claim and settlement, and a lease that outlives it. */
const SLOW = { PROCESSOR_DELAY_MS: '2000', LOCK_TTL_SECONDS: '10' };

/**
 * Bug: a payment was acknowledged though its wait for a synchronous standby had been cancelled, so a failover could take
 * it back. Cause: such a commit counted as unknown, but the row that was then read back was believed, and repeats
 * believed it too. Fix: what is read and decides an answer is confirmed by a commit of its own that waits for the standby.
 */
describe('a synchronous standby that is away, while the waits for it are cancelled', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let service: Service;
  let cancelling: { stop(): Promise<number> } | undefined;

  beforeEach(async () => {
    stores = await openStoppableStores();
  });
  afterEach(async () => {
    await cancelling?.stop();
    await stores.close();
  });

  it('lets no claim be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    service = await stores.start({ LOCK_TTL_SECONDS: '2' });
    const key = await generateKey(service.url);
    await loseStandby();

    expectUnknown(await pay(service.url, key));
    for (let repeat = 0; repeat < REPEATS; repeat += 1) await expectNotTold(key);

    await findStandby();
    await expectOnePayment(key);
  }, 60_000);

  it('lets no settlement be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    service = await stores.start(SLOW);
    const key = await generateKey(service.url);
    const first = pay(service.url, key);
    await until('the claim', DEADLINE_MS, async () => (await rowsOf(key)).length > 0);
    await loseStandby();

    expectUnknown(await first);
    // Committed here and seen by everybody, which is what made it look acknowledged.
    expect(await rowsOf(key)).toMatchObject([{ state: 'COMPLETED' }]);
    for (let repeat = 0; repeat < REPEATS; repeat += 1) await expectNotTold(key);

    await findStandby();
    await expectOnePayment(key);
  }, 60_000);

  async function expectNotTold(key: string): Promise<void> {
    const [repeat, status] = await Promise.all([pay(service.url, key), paymentStatus(service.url, key)]);
    // 409 and 404 while the claim of the first attempt has its lease: nobody is told an outcome.
    expect([409, 503, 504], repeat.text).toContain(repeat.status);
    expectError(repeat, repeat.status);
    expect([404, 503, 504], status.text).toContain(status.status);
    expectError(status, status.status);
    await pause(100);
  }

  async function expectOnePayment(key: string): Promise<void> {
    const told = await until('the outcome', DEADLINE_MS, async () => {
      const answer = await pay(service.url, key);
      if (answer.status !== 200) expect([409, 503, 504], answer.text).toContain(answer.status);
      return answer.status === 200 && answer;
    });
    const id = transactionIdOf(told);
    expectReplay(await pay(service.url, key), id);
    expect(await rowsOf(key)).toEqual([{ state: 'COMPLETED', transaction_id: id }]);
  }

  function rowsOf(key: string) {
    return stores.sql<{ state: string; transaction_id: string }>(
      'SELECT state, transaction_id FROM idempay.payments WHERE key = $1',
      [key],
    );
  }

  /** From here on every commit of the service waits for a standby that does not exist, and soon waits no more. */
  async function loseStandby(): Promise<void> {
    await stores.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody1'");
    await stores.sql('SELECT pg_reload_conf()');
    const probe = until('a commit that is cancelled', DEADLINE_MS, async () => {
      await stores.sql("SELECT pg_logical_emit_message(true, 'probe', '')");
      return cancelling !== undefined;
    });
    await until('a commit that waits', DEADLINE_MS, async () => (await waiting()).length > 0);
    cancelling = cancelWaits();
    await probe;
  }

  async function findStandby(): Promise<void> {
    // Otherwise no wait was cancelled, and the test proves nothing.
    expect(await cancelling?.stop()).toBeGreaterThan(0);
    cancelling = undefined;
    await stores.sql('ALTER SYSTEM RESET synchronous_standby_names');
    await stores.sql('SELECT pg_reload_conf()');
  }

  function waiting() {
    return stores.sql<{ pid: number }>("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  }

  function cancelWaits(): { stop(): Promise<number> } {
    let stopped = false;
    let cancelled = 0;
    const done = (async () => {
      while (!stopped) {
        for (const { pid } of await waiting()) {
          await stores.sql('SELECT pg_cancel_backend($1)', [pid]);
          cancelled += 1;
        }
        await pause(10);
      }
    })();
    return {
      async stop() {
        stopped = true;
        await done;
        return cancelled;
      },
    };
  }
});

function expectUnknown(answer: Answer): void {
  expect([503, 504], answer.text).toContain(answer.status);
  expectError(answer, answer.status);
}
