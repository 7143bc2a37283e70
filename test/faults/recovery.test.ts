import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { pause, until } from '../../testkit/time/until.js';

/** A payment that is never over while the test looks, under a lease that never ends while the test looks. */
const ENDLESS = { PROCESSOR_DELAY_MS: '60000', LOCK_TTL_SECONDS: '120' };
const AT_ONCE = { PROCESSOR_DELAY_MS: '0', LOCK_TTL_SECONDS: '120' };
/** Far below the lease of 120 s: whoever waits for that lease fails. */
const RECOVERY_DEADLINE_MS = 10_000;
/** Up to four processes are started one after the other. */
const TEST_MS = 90_000;

let stores: Stores;

beforeEach(async () => {
  stores = await embedded.open();
});
afterEach(() => stores.close());

describe('a payment that was under way when the process died', () => {
  /** Durably claimed, and its process killed. */
  async function killedWhileProcessing(): Promise<string> {
    const service = await stores.start(ENDLESS);
    const key = await generateKey(service.url);
    const { finished } = await beginPayment(service.url, key);
    const cut = expect(finished, 'the payment was over before the kill').rejects.toThrow();
    // The claim was handed to the store before this write, and commits happen in order.
    await generateKey(service.url);
    await service.kill();
    await cut;
    return key;
  }

  async function outcome(url: string, key: string): Promise<string> {
    const status = await until('payment-status knows the outcome', RECOVERY_DEADLINE_MS, async () => {
      const answer = await paymentStatus(url, key);
      if (answer.status !== 200) expectError(answer, 404, NO_PAYMENT);
      return answer.status === 200 && answer;
    });
    return expectCompleted(status);
  }

  it(
    'is finished by the next start within seconds, whatever its lease says, and every request is a repeat (P13)',
    async () => {
      const key = await killedWhileProcessing();
      const { url } = await stores.start(AT_ONCE);
      const id = await outcome(url, key);
      await expectKeyValue(url, key, id);
      expectReplay(await pay(url, key), id);
      expectReplay(await pay(url, key), id);
    },
    TEST_MS,
  );

  it(
    'has one id although the process that recovered it was killed as well',
    async () => {
      const key = await killedWhileProcessing();
      const between = await stores.start(ENDLESS);
      const early = await paymentStatus(between.url, key);
      // The simulated processor may know the outcome by reference already; what it answered once must stay.
      const known = early.status === 200 ? expectCompleted(early) : undefined;
      await between.kill();

      const last = await stores.start(AT_ONCE);
      const id = await outcome(last.url, key);
      if (known) expect(id).toBe(known);
      expectReplay(await pay(last.url, key), id);
      await last.kill();
      expectReplay(await pay((await stores.start(AT_ONCE)).url, key), id);
    },
    TEST_MS,
  );
});

describe('a payment that takes longer than its lease', () => {
  /** Two and a half leases: without renewal the second duplicate or recovery itself would take the payment over. */
  const SLOW = { PROCESSOR_DELAY_MS: '5000', LOCK_TTL_SECONDS: '2' };
  const LEASE_SECONDS = 2;
  /** Duplicates up to here are surely early; later ones may meet the finished payment. */
  const SURELY_AT_WORK_MS = 4_500;

  it('keeps its lease while it works: every duplicate gets 409, and it finishes once, with one id', async () => {
    const { url } = await stores.serve(SLOW);
    const key = await generateKey(url);
    const begun = performance.now();
    const { finished } = await beginPayment(url, key);
    let over = false;
    const answered = finished.finally(() => {
      over = true;
    });

    let lastConflictMs = 0;
    while (!over) {
      const sentMs = performance.now() - begun;
      const duplicate = await pay(url, key);
      if (duplicate.status === 409 || sentMs < SURELY_AT_WORK_MS) {
        expectInProgress(duplicate, LEASE_SECONDS);
        lastConflictMs = sentMs;
      } else {
        expectReplay(duplicate);
      }
      await pause(100);
    }

    // Else no duplicate came after the first lease would have ended, and the test has shown nothing.
    expect(lastConflictMs).toBeGreaterThan(3_500);
    const id = expectFirst(await answered);
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);
  });
});
