import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { pause, until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const REPEATS = 4;
const NO_OUTCOME = [404, 409, 503, 504];

/**
 * Bug: a payment was acknowledged though its wait for a synchronous standby had been cancelled, so a failover could take
 * it back. Cause: such a commit counted as unknown, but the row that was then read back was believed, and repeats
 * believed it too. Fix: what is read and decides an answer is confirmed by a commit of its own that waits for the standby.
 */
describe('a synchronous standby that is away, while the waits for it are cancelled', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let cancelling: { stop(): Promise<number> } | undefined;

  beforeAll(async () => {
    stores = await openStoppableStores();
  }, 60_000);
  afterEach(() => cancelling?.stop());
  afterAll(() => stores.close());

  it('lets no claim be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    const { url } = await stores.serve({ LOCK_TTL_SECONDS: '2' });
    const key = await generateKey(url);
    await loseStandby();
    expectNoOutcome(await pay(url, key));
    await expectNoOutcomeForRepeats(url, key);
    await findStandby();
    await expectOnePayment(url, key);
  }, 60_000);

  it('lets no settlement be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    // Time to take the standby away between claim and settlement, and a lease that outlives it.
    const { url } = await stores.serve({ PROCESSOR_DELAY_MS: '1000', LOCK_TTL_SECONDS: '10' });
    const key = await generateKey(url);
    const first = pay(url, key);
    await until('the claim', DEADLINE_MS, async () => (await rowsOf(key)).length > 0);
    await loseStandby();
    expectNoOutcome(await first);
    // Committed here and seen by everybody, which is what made it look acknowledged.
    expect(await rowsOf(key)).toMatchObject([{ state: 'COMPLETED' }]);
    await expectNoOutcomeForRepeats(url, key);
    await findStandby();
    await expectOnePayment(url, key);
  }, 60_000);

  function expectNoOutcome(answer: Answer, statuses = [503, 504]): void {
    expect(statuses, answer.text).toContain(answer.status);
    expectError(answer, answer.status);
  }

  /** 409 and 404 while the claim of the first attempt has its lease. */
  async function expectNoOutcomeForRepeats(url: string, key: string): Promise<void> {
    for (let repeat = 0; repeat < REPEATS; repeat += 1) {
      const answers = await Promise.all([pay(url, key), paymentStatus(url, key)]);
      for (const answer of answers) expectNoOutcome(answer, NO_OUTCOME);
      await pause(100);
    }
  }

  async function expectOnePayment(url: string, key: string): Promise<void> {
    const outcome = await until('the outcome', DEADLINE_MS, async () => {
      const answer = await pay(url, key);
      if (answer.status !== 200) expectNoOutcome(answer, NO_OUTCOME);
      return answer.status === 200 && answer;
    });
    const id = expectReplay(await pay(url, key), transactionIdOf(outcome));
    expect(await rowsOf(key)).toEqual([{ state: 'COMPLETED', transaction_id: id }]);
  }

  function rowsOf(key: string) {
    return stores.sql('SELECT state, transaction_id FROM idempay.payments WHERE key = $1', [key]);
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
