import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { pay } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { givenClaim, givenSettled, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import type { Ports } from '../../testkit/protocol/ports.js';
import {
  changeStored,
  HORIZON_SEEN_BY_ALL,
  openPortsOn,
  type StoredChange,
} from '../../testkit/protocol/stored-payments.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { pause } from '../../testkit/time/until.js';

const DAY_MS = 24 * HOUR_MS;
const RETENTION = { PAYMENT_RETENTION_DAYS: '30' };
const RETENTION_MS = 30 * DAY_MS;
const AHEAD_MS = 60 * DAY_MS;
const PAYMENTS = 300;
const KEYS = 5;
/** Round and sweep at the start of a process: more than one of each. */
const ROUND_MS = 2_500;
const STARTS = 3;
/** A deployment of several processes removes nothing before all of them can know the horizon: in the third. */
const ROUNDS = 6;

vi.setConfig({ testTimeout: 120_000 });

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
  let paidLater: string[];

  /** Settled and issued just now, by a service that has seen more than the retention before. Then the clock is set ahead. */
  beforeEach(async () => {
    stores = await deployment.open();
    await withPorts(async ({ keys, ledger }) => {
      const issue = (ageMs: number, ttlMs: number) =>
        inParallel(KEYS, KEYS, async () => {
          const key = newKeyOf(Date.now() - ageMs);
          await keys.issue(key, ttlMs);
          return key;
        });
      await passHours(ledger, 31 * 24);
      unpaid = await issue(AHEAD_MS, AHEAD_MS + DAY_MS);
      paidLater = await issue(0, DAY_MS);
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

  async function withPorts<T>(work: (ports: Ports) => Promise<T>): Promise<T> {
    const ports = await openPortsOn(stores);
    return work(ports).finally(ports.close);
  }

  it('removes nothing that was settled within the retention, at no start, and good keys are paid afterwards', async () => {
    for (let start = 0; start < STARTS; start += 1) {
      const service = await stores.serve(RETENTION);
      await pause(ROUND_MS);
      expectFirst(await pay(service.url, unpaid[start] as string));
      await service.stop();
      await changeStored(stores, HORIZON_SEEN_BY_ALL);
    }
    await changeStored(stores, moved(AHEAD_MS));
    const found = await withPorts(({ paymentHistory }) =>
      Promise.all(settled.map(({ key }) => paymentHistory.find(key))),
    );
    expect(found.filter((payment) => payment === undefined)).toEqual([]);

    const { url } = await stores.serve(RETENTION);
    for (const key of paidLater) expectFirst(await pay(url, key));
  });

  it('is the same to hours that no process saw; an operator may confirm them', async () => {
    const removeAll = () =>
      withPorts(async ({ ledger }) => {
        let removed = 0;
        const time = await passHours(ledger, 3);
        expect(time.unseenMs === 0 || time.unseenMs > AHEAD_MS - HOUR_MS).toBe(true);
        for (let round = 0; round < ROUNDS; round += 1) {
          removed += await removeOld(ledger, RETENTION_MS);
          await changeStored(stores, HORIZON_SEEN_BY_ALL);
        }
        return removed;
      });
    expect(await removeAll()).toBe(0);
    await changeStored(stores, CONFIRMED);
    expect(await removeAll()).toBe(settled.length);
  });
});

/** As in `docs/deployment.md`. */
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
