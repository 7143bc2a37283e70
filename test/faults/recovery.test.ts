import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
import { type Service, startService } from '../../testkit/processes/service.js';
import { pause, until } from '../../testkit/time/until.js';

/** A payment that is never over while the test looks, under a lease that never ends while the test looks. */
const ENDLESS = { PROCESSOR_DELAY_MS: '60000', LOCK_TTL_SECONDS: '120' };
const AT_ONCE = { PROCESSOR_DELAY_MS: '0', LOCK_TTL_SECONDS: '120' };
/** Far below the lease of 120 s: whoever waits for that lease fails. */
const RECOVERY_DEADLINE_MS = 10_000;

describe('a payment that was under way when the process died', () => {
  let folder: string;
  let service: Service;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-recovery-'));
  });
  afterEach(async () => {
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  });

  const start = async (environment: Record<string, string>) => {
    service = await startService({ DATA_DIR: folder, ...environment });
    return service.url;
  };

  /** Brings a payment under way, durably claimed, and kills the process. */
  async function killedWhileProcessing(): Promise<string> {
    const url = await start(ENDLESS);
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    const cut = finished.then(
      (answer) => Promise.reject(new Error(`the payment was over before the kill: ${answer.text}`)),
      () => undefined,
    );
    // The claim was handed to the store before this write is, and commits happen in order: once this one is
    // acknowledged, the claim is durable.
    await generateKey(url);
    await service.kill();
    await cut;
    return key;
  }

  it('is finished by the next start within seconds, whatever its lease says and without any repeat', async () => {
    const key = await killedWhileProcessing();
    const url = await start(AT_ONCE);

    const status = await until('payment-status knows the outcome', RECOVERY_DEADLINE_MS, async () => {
      const answer = await paymentStatus(url, key);
      if (answer.status !== 200) expectError(answer, 404, NO_PAYMENT);
      return answer.status === 200 && answer;
    });
    const id = expectCompleted(status);
    await expectKeyValue(url, key, id);
  });

  it('only ever gives repeats once recovery has finished it (P13)', async () => {
    const key = await killedWhileProcessing();
    const url = await start(AT_ONCE);

    const first = await until('a repeat knows the outcome', RECOVERY_DEADLINE_MS, async () => {
      const answer = await paymentStatus(url, key);
      return answer.status === 200 && pay(url, key);
    });
    const id = expectReplay(first);
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);
  });

  it('has one id although the process that recovered it was killed as well', async () => {
    const key = await killedWhileProcessing();
    const between = await start(ENDLESS);
    const early = await paymentStatus(between, key);
    // The simulated processor may know the outcome by reference already; what it told once must stay.
    const told = early.status === 200 ? expectCompleted(early) : undefined;
    await service.kill();

    const url = await start(AT_ONCE);
    const answer = await until('the outcome is known', RECOVERY_DEADLINE_MS, async () => {
      const status = await paymentStatus(url, key);
      return status.status === 200 && status;
    });
    const id = expectCompleted(answer, told);
    expectReplay(await pay(url, key), id);
    await service.kill();
    expectReplay(await pay(await start(AT_ONCE), key), id);
  });
});

describe('a payment that takes longer than its lease', () => {
  /** Two and a half leases: without renewal the second duplicate or recovery itself would take the payment over. */
  const SLOW = { PROCESSOR_DELAY_MS: '5000', LOCK_TTL_SECONDS: '2' };
  const LEASE_SECONDS = 2;
  /** Duplicates up to here are surely early; later ones may meet the finished payment. */
  const SURELY_AT_WORK_MS = 4_500;

  let folder: string;
  let service: Service;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-lease-'));
    service = await startService({ DATA_DIR: folder, ...SLOW });
  });
  afterEach(async () => {
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  });

  it('keeps its lease while it works: every duplicate gets 409, and it finishes once, with one id', async () => {
    const { url } = service;
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
