import { afterAll, afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { expectError } from '../../testkit/client/error-body.js';
import { pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  givenPaid,
  INVALID_KEY,
  KEY_GENERATED,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import {
  expectNoRecord,
  exportDay,
  keysOf,
  listPayments,
  readPayment,
  shownIn,
} from '../../testkit/client/payment-records.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { givenClaim, givenSettled, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import type { Ports } from '../../testkit/protocol/ports.js';
import {
  aged,
  changeStored,
  HORIZON_SEEN_BY_ALL,
  openPortsOn,
  type StoredChange,
} from '../../testkit/protocol/stored-rows.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { pause, until } from '../../testkit/time/until.js';

const DAY_MS = 24 * HOUR_MS;
const RETENTION = { PAYMENT_RETENTION_DAYS: '1' };
const OLD_MS = 3 * DAY_MS;
/** By which a day is over for what was settled before. */
const RETENTION_HOURS = 26;
/** A deployment of several processes removes nothing before it is sure that all of them know: in the third round. */
const MOST_ROUNDS = 10;
/** How long the round at the start of a process is waited for before the next process is started. */
const ROUND_MS = 500;

/** Keys that are three days old, but for the young one. */
const old = () => newKeyOf(Date.now() - OLD_MS);
const newKeys = () => ({
  /** Its record, alongside the row, is as from a copy that was made before it was paid. */
  completed: old(),
  /** Its record is gone, as it is by then. */
  declined: old(),
  /** Nobody is at work on it, and its processor is not this service's. */
  processing: old(),
  unpaid: old(),
  young: newKeyOf(Date.now()),
});

/** Each test goes on from the end of the one before. */
describeDeployments('PAYMENT_RETENTION_DAYS', (deployment) => {
  const given = newKeys();
  let stores: Stores;
  let service: ServiceInProcess;
  let processor: ProcessorInProcess;
  /** A store with payments of processors is served with one. */
  let real: Record<string, string>;
  /** The answers before anything was removed, by key. */
  const shownBefore = new Map<string, string>();

  beforeAll(async () => {
    stores = await deployment.open();
    await givenOldPayments(stores, given);
    processor = await serveReferenceProcessor();
    real = { PROCESSOR_URL: processor.url };
    service = await stores.serve(real);
  });
  afterAll(async () => {
    await stores?.close();
    await processor?.close();
  });

  it('unset keeps every payment', async () => {
    for (const key of Object.values(given)) {
      const answer = await readPayment(service.url, key);
      shownIn(answer);
      shownBefore.set(key, answer.text);
    }
    const { payments } = await listPayments(service.url);
    expect(payments).toHaveLength(Object.keys(given).length - 1);
    await service.stop();
  });

  it('removes what was settled longer ago and is repeated no more', async () => {
    const isRemoved = async () => (await readPayment(service.url, given.declined)).status === 404;
    for (let round = 1; ; round += 1) {
      service = await stores.serve({ ...real, ...RETENTION });
      if (await until('the removal', ROUND_MS, isRemoved).catch(() => false)) break;
      expect(round, 'rounds without a removal').toBeLessThan(MOST_ROUNDS);
      await service.stop();
      await changeStored(stores, HORIZON_SEEN_BY_ALL);
    }
    expectNoRecord(await readPayment(service.url, given.declined));
    const listed = keysOf((await listPayments(service.url)).payments);
    expect(listed.sort()).toEqual([given.processing, given.young].sort());
    const day = new Date(Date.now() - OLD_MS).toISOString().slice(0, 10);
    expect(keysOf(await exportDay(service.url, day))).not.toContain(given.completed);
  });

  it('refuses a removed key, also one whose record says that it was never paid', async () => {
    for (const key of [given.completed, given.unpaid]) await expectKeyValue(service.url, key, KEY_GENERATED);
    for (const key of [given.completed, given.declined, given.unpaid]) {
      for (let attempt = 0; attempt < 2; attempt += 1) expectError(await pay(service.url, key), 400, INVALID_KEY);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
    }
  });

  it('keeps what is younger, or PROCESSING, whatever its age, and lets new keys be paid', async () => {
    for (const key of [given.young, given.processing]) {
      expect((await readPayment(service.url, key)).text).toBe(shownBefore.get(key));
    }
    expectReplay(await pay(service.url, given.young));
    expectInProgress(await pay(service.url, given.processing));
    await givenPaid(service.url);
  });

  it('unset again, after a removal, refuses a removed key all the same', async () => {
    await service.stop();
    service = await stores.serve(real);
    expectError(await pay(service.url, given.completed), 400, INVALID_KEY);
    expectReplay(await pay(service.url, given.young));
  });
});

/** A state that only days could bring about, by the adapters that a service would use, and then moved into the past. */
async function givenOldPayments(stores: Stores, given: ReturnType<typeof newKeys>): Promise<void> {
  const { completed, declined, processing, young } = given;
  await withPorts(stores, async ({ keys, ledger }) => {
    for (const key of Object.values(given)) if (key !== declined) await keys.issue(key, DAY_MS);
    const settle = async (key: string, more = {}) =>
      givenSettled(ledger, await givenClaim(ledger, { key, processor: 'another' }), { ttlMs: DAY_MS, ...more });
    await settle(completed);
    await settle(declined, { outcome: { state: 'DECLINED', reason: 'no funds' } });
    await ledger.abandon(await givenClaim(ledger, { key: processing, processor: 'another' }), 0);
    await passHours(ledger, RETENTION_HOURS);
    await settle(young);
  });
  await changeStored(stores, aged([completed, declined, processing], OLD_MS));
  await changeStored(stores, {
    // The other deployment's records are written by the key store alone, which was not told of the outcomes.
    embedded: `
      UPDATE idempotency_keys SET value = '${KEY_GENERATED}', fingerprint = NULL WHERE key = '${completed}';
      DELETE FROM idempotency_keys WHERE key = '${declined}'`,
    distributed: '',
  });
}

async function withPorts<T>(stores: Stores, work: (ports: Ports) => Promise<T>): Promise<T> {
  const ports = await openPortsOn(stores);
  return work(ports).finally(ports.close);
}

const RETENTION_DAYS = 30;
const AHEAD_MS = 60 * DAY_MS;
const PAYMENTS = 100;
/** Round and sweep at the start of a process: more than one of each. */
const ROUNDS_MS = 2_500;
const STARTS = 3;
/** A deployment of several processes removes nothing before all of them can know the horizon: in the third. */
const ROUNDS = 6;

/**
 * Bug: one call with a clock 60 days ahead removed 300 of 300 payments that had been settled seconds before, and refused good
 * unpaid keys afterwards. Cause: age was the clock's time since the payment was settled. Fix: age is the time that processes
 * have seen pass. All that is stored moves into the past, which is what a clock ahead makes of it.
 */
describeDeployments('a clock that is 60 days ahead', (deployment) => {
  let stores: Stores;
  let settled: Claim[];
  /** Good also by the clock that is ahead, and generated before the payments' keys. */
  let unpaid: string[];
  /** Good when the clock is right again; by the other one they have expired. */
  let paidLater: string;

  /** Settled and issued just now, by a service that has seen more than the retention before. Then the clock is set ahead. */
  beforeEach(async () => {
    stores = await deployment.open();
    await withPorts(stores, async ({ keys, ledger }) => {
      await passHours(ledger, (RETENTION_DAYS + 1) * 24);
      unpaid = Array.from({ length: STARTS }, () => newKeyOf(Date.now() - AHEAD_MS));
      for (const key of unpaid) await keys.issue(key, AHEAD_MS + DAY_MS);
      paidLater = newKeyOf(Date.now());
      await keys.issue(paidLater, DAY_MS);
      settled = await inParallel(PAYMENTS, PAYMENTS, async () => {
        const claim = await givenClaim(ledger, { key: newKeyOf(Date.now() - AHEAD_MS) });
        await givenSettled(ledger, claim, { ttlMs: DAY_MS });
        return claim;
      });
      await passHours(ledger, 1);
    });
    await changeStored(stores, moved(-AHEAD_MS));
  });
  afterEach(() => stores?.close());

  it('removes nothing that was settled within the retention, at any start, and valid keys are paid afterwards', async () => {
    const processor = await serveReferenceProcessor();
    onTestFinished(() => processor.close());
    const retention = { PROCESSOR_URL: processor.url, PAYMENT_RETENTION_DAYS: `${RETENTION_DAYS}` };
    for (const key of unpaid) {
      const service = await stores.serve(retention);
      await pause(ROUNDS_MS);
      expectFirst(await pay(service.url, key));
      await service.stop();
      await changeStored(stores, HORIZON_SEEN_BY_ALL);
    }
    await changeStored(stores, moved(AHEAD_MS));
    const { url } = await stores.serve(retention);
    for (const { key } of settled) expect((await readPayment(url, key)).status).toBe(200);
    expectFirst(await pay(url, paidLater));
  });

  it('does not count as elapsed time until an operator confirms it', async () => {
    const removeAll = () =>
      withPorts(stores, async ({ ledger }) => {
        let removed = 0;
        const time = await passHours(ledger, 3);
        expect(time.unseenMs === 0 || time.unseenMs > AHEAD_MS - HOUR_MS).toBe(true);
        for (let round = 0; round < ROUNDS; round += 1) {
          removed += await removeOld(ledger, RETENTION_DAYS * DAY_MS);
          await changeStored(stores, HORIZON_SEEN_BY_ALL);
        }
        return removed;
      });
    expect(await removeAll()).toBe(0);
    await changeStored(stores, CONFIRMED);
    expect(await removeAll()).toBe(settled.length);
  });
});

/** As in `docs/operations/deployment.md`. */
const CONFIRMED: StoredChange = {
  embedded: 'UPDATE retention_hours SET confirmed = 1 WHERE unseen_ms > 0',
  distributed: 'UPDATE idempay.retention_hours SET confirmed = true WHERE unseen_ms > 0',
};

/** All times that the store has written. */
function moved(ms: number): StoredChange {
  const by = `${ms} * interval '1 millisecond'`;
  return {
    embedded: `
      UPDATE payments SET claimed_at = claimed_at + ${ms}, settled_at = settled_at + ${ms}, expires_at = expires_at + ${ms};
      UPDATE idempotency_keys SET expires_at = expires_at + ${ms};
      UPDATE retention_hours SET clock_ms = clock_ms + ${ms}, lowest_key_ms = lowest_key_ms + ${ms}`,
    distributed: `
      UPDATE idempay.payments SET claimed_at = claimed_at + ${by}, settled_at = settled_at + ${by},
        expires_at = expires_at + ${by};
      UPDATE idempay.retention_hours SET clock_ms = clock_ms + ${ms}, lowest_key_ms = lowest_key_ms + ${ms}`,
  };
}
