import { afterEach, describe, expect, test } from 'vitest';
import { createKeyTimes } from '#idempay/payments/issue.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import { createRetention, type Retention } from '#idempay/payments/retention.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { openEmbeddedFolder } from '../../testkit/protocol/embedded-folder.js';
import { type FailingPort, failingPort } from '../../testkit/protocol/failing-ports.js';
import { givenClaim, givenSettled, newKey } from '../../testkit/protocol/payment-attempts.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { HOUR_MS, passHours } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until.js';

const ROUND_MS = 60_000;
const BATCH_INTERVAL_MS = 50;
const RETENTION_MS = 24 * HOUR_MS;
/** More than one batch. */
const PAYMENTS = 600;
const DOWN = new StoreUnavailable('unchanged', 'the store is down');

const folder = openEmbeddedFolder();

/** The clock of the process and its timer are the test's; the ledger is real. */
describe('retention', () => {
  let ledger: FailingPort<Ledger>;
  let clock: HandClock;
  let retention: Retention;
  let faults: unknown[];
  let unseenHours: number[];

  afterEach(() => retention.stop());

  async function start(retentionMs?: number): Promise<void> {
    clock = new HandClock(Date.now());
    ledger = failingPort(folder.deployment.ledger);
    [faults, unseenHours] = [[], []];
    retention = createRetention(ledger.port, retentionMs, clock, createKeyTimes(newKey, clock), {
      fault: (fault) => faults.push(fault),
      unseen: (ms) => unseenHours.push(Math.round(ms / HOUR_MS)),
    });
    await retention.start();
    await pass(0);
  }

  /** A round ends with the callback for the next one. */
  async function pass(ms: number): Promise<void> {
    clock.advance(ms);
    await expect.poll(() => clock.pending).toBe(1);
  }

  async function seenMs(): Promise<number> {
    const elapsed = { sinceMs: 0, elapsedMs: 0, lowestKeyMs: Date.now() };
    return (await folder.deployment.ledger.noteElapsed(elapsed)).seenMs;
  }

  test.each([undefined, RETENTION_MS])('notes the time once a minute (kept: %s ms)', async (kept) => {
    await start(kept);
    await pass(ROUND_MS);
    expect(await seenMs()).toBe(ROUND_MS);
    ledger.failNext('noteElapsed', DOWN);
    await pass(ROUND_MS);
    expect(await seenMs()).toBe(ROUND_MS);
    await pass(ROUND_MS);
    expect(await seenMs()).toBe(3 * ROUND_MS);
    expect(faults).toEqual([DOWN]);
  });

  test('removes what is old enough, and goes on soon while there is more to look at', async () => {
    const { ledger, paymentHistory } = folder.deployment;
    const claims = await Promise.all(Array.from({ length: PAYMENTS }, () => givenClaim(ledger)));
    await Promise.all(claims.map((claim) => givenSettled(ledger, claim, { ttlMs: 1 })));
    await untilPast(1);
    const left = async () =>
      (await Promise.all(claims.map(({ key }) => paymentHistory.find(key)))).filter(Boolean).length;
    await passHours(ledger, 22);
    await start(RETENTION_MS);
    expect(await left(), 'of payments that are too young').toBe(PAYMENTS);
    await retention.stop();
    await passHours(ledger, 4);
    await start(RETENTION_MS);
    expect(await left()).toBe(100);
    await pass(BATCH_INTERVAL_MS);
    expect(await left()).toBe(0);
  });

  test('reports unseen hours when they grow, and not again each minute', async () => {
    const setBackClock = (ms: number) =>
      folder.inFile((database) => database.exec(`UPDATE retention_hours SET clock_ms = clock_ms - ${ms}`));
    setBackClock(5 * HOUR_MS);
    await start(RETENTION_MS);
    await pass(ROUND_MS);
    expect(unseenHours).toEqual([5]);
    setBackClock(2 * HOUR_MS);
    await pass(ROUND_MS);
    await pass(ROUND_MS);
    expect(unseenHours).toEqual([5, 7]);
  });
});
