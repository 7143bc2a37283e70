import { expect, onTestFinished, test } from 'vitest';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { givenClaim, givenSettled } from '../../testkit/protocol/payment-attempts.js';
import {
  changeStored,
  HORIZON_SEEN_BY_ALL,
  openPortsOn,
  type StoredChange,
} from '../../testkit/protocol/stored-rows.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until.js';

const RETENTION_MS = 24 * HOUR_MS;
const DAYS_UNSEEN_MS = 48 * HOUR_MS;
const CLOCK_AHEAD_MS = 60 * 24 * HOUR_MS;

/** The newest hour's record of time in which no process ran. */
const unseen = (isConfirmed: boolean): StoredChange => ({
  embedded: `UPDATE retention_hours SET unseen_ms = ${DAYS_UNSEEN_MS}, confirmed = ${isConfirmed ? 1 : 0}
    WHERE hour = (SELECT max(hour) FROM retention_hours)`,
  distributed: `UPDATE idempay.retention_hours SET unseen_ms = ${DAYS_UNSEEN_MS}, confirmed = ${isConfirmed}
    WHERE hour = (SELECT max(hour) FROM idempay.retention_hours)`,
});

/** Each round opens the stores anew, because they may only be changed while no process has them open. */
async function removeInRounds(stores: Stores): Promise<number> {
  let removed = 0;
  for (let round = 0; round < 3; round += 1) {
    await changeStored(stores, HORIZON_SEEN_BY_ALL);
    removed += await withLedger(stores, (ledger) => removeOld(ledger, RETENTION_MS));
  }
  return removed;
}

async function withLedger<T>(stores: Stores, use: (ledger: Ledger) => Promise<T>): Promise<T> {
  const { ledger, close } = await openPortsOn(stores);
  return use(ledger).finally(close);
}

/** Counts one hour at a time, as a process does whose clock is far ahead, so that each key looks old. */
async function passHoursAhead(ledger: Ledger, hours: number): Promise<void> {
  const lowestKeyMs = Date.now() + CLOCK_AHEAD_MS;
  let { seenMs } = await ledger.noteElapsed({ sinceMs: 0, elapsedMs: 0, lowestKeyMs });
  for (let hour = 0; hour < hours; hour += 1) {
    ({ seenMs } = await ledger.noteElapsed({ sinceMs: seenMs, elapsedMs: HOUR_MS, lowestKeyMs }));
  }
}

/** The age of a payment decides about its removal, and only time that was seen or confirmed counts. */
describeDeployments('a payment', (deployment) => {
  async function open(): Promise<Stores> {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return stores;
  }

  test('is older by hours that no process saw only after an operator has confirmed them', async () => {
    const stores = await open();
    await withLedger(stores, async (ledger) => {
      await givenSettled(ledger, await givenClaim(ledger), { ttlMs: 1 });
      // A settlement of the very millisecond at which the hour begins belongs to that hour.
      await untilPast(1);
      await passHours(ledger, 2);
    });
    await changeStored(stores, unseen(false));
    expect(await removeInRounds(stores)).toBe(0);
    await changeStored(stores, unseen(true));
    expect(await removeInRounds(stores)).toBe(1);
  });

  test('is kept for its hour, although its key and its end look old by a clock that is far ahead', async () => {
    const stores = await open();
    const young = await withLedger(stores, async (ledger) => {
      const [old, later] = [await givenClaim(ledger), await givenClaim(ledger)];
      await givenSettled(ledger, old, { ttlMs: 1 });
      await passHoursAhead(ledger, 20);
      await givenSettled(ledger, later, { ttlMs: 1 });
      await passHoursAhead(ledger, 8);
      return later;
    });
    expect(await removeInRounds(stores)).toBe(1);
    expect(await withLedger(stores, ({ find }) => find(young.key))).not.toEqual({ state: 'absent' });
  });
});
