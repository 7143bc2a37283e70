import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import type { Deployment } from '#idempay/deployments/deployment.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import { StoreUnavailable } from '#idempay/faults.js';
import { createKeyTimes } from '#idempay/payments/key-times.js';
import { createRetention, type Retention } from '#idempay/payments/retention.js';
import { type FailingPort, failingPort } from '../../testkit/protocol/failing-ports.js';
import { givenClaim, givenSettled, LONG_MS, newKey } from '../../testkit/protocol/payment-attempts.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { HOUR_MS, passHours } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const ROUND_MS = 60_000;
const BATCH_INTERVAL_MS = 50;
const DEADLINE_MS = 10_000;
const RETENTION_MS = 24 * HOUR_MS;
/** More than one batch. */
const PAYMENTS = 600;
const AWAY = new StoreUnavailable('unchanged', 'the store is away');

/** The clock of the process and its timer are the test's; the ledger is real. */
describe('retention', () => {
  let dataDir: string;
  let deployment: Deployment;
  let ledger: FailingPort<Deployment['ledger']>;
  let clock: HandClock;
  let retention: Retention;
  let faults: unknown[];
  let unseen: number[];

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'idempay-retention-'));
    deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
    ledger = failingPort(deployment.ledger);
    [faults, unseen] = [[], []];
  });
  afterEach(async () => {
    await retention.stop();
    await deployment.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  async function start(retentionMs?: number): Promise<void> {
    clock = new HandClock(Date.now());
    retention = createRetention(ledger.port, retentionMs, clock, createKeyTimes(newKey, clock), {
      fault: (fault) => faults.push(fault),
      unseen: (ms) => unseen.push(ms),
    });
    await retention.start();
    await roundIsOver();
  }

  /** A round ends with the callback for the next one. */
  async function roundIsOver(): Promise<void> {
    await until('the round to be over', DEADLINE_MS, () => clock.pending === 1);
  }

  async function pass(ms: number): Promise<void> {
    clock.advance(ms);
    await roundIsOver();
  }

  async function seenMs(): Promise<number> {
    const time = await deployment.ledger.noteElapsed({ sinceMs: 0, elapsedMs: 0, lowestKeyMs: Date.now() });
    return time.seenMs;
  }

  test('notes the time that passes once a minute, also where payments are kept for ever', async () => {
    await start();
    await pass(0);
    for (let minute = 1; minute <= 3; minute += 1) {
      await pass(ROUND_MS);
      expect(await seenMs()).toBe(minute * ROUND_MS);
    }
    expect(faults).toEqual([]);
  });

  test('notes with the next minute what could not be noted', async () => {
    await start(RETENTION_MS);
    await pass(0);
    ledger.failNext('noteElapsed', AWAY);
    await pass(ROUND_MS);
    expect(await seenMs()).toBe(0);
    await pass(ROUND_MS);
    expect(await seenMs()).toBe(2 * ROUND_MS);
    expect(faults).toEqual([AWAY]);
  });

  test('goes on soon while there is more to look at', async () => {
    const claims = await Promise.all(Array.from({ length: PAYMENTS }, () => givenClaim(deployment.ledger)));
    await Promise.all(claims.map((claim) => givenSettled(deployment.ledger, claim, { ttlMs: 1 })));
    await untilPast(1);
    await passHours(deployment.ledger, 26);
    const keys = claims.map(({ key }) => key);
    const left = async () =>
      (await Promise.all(keys.map((key) => deployment.paymentHistory.find(key)))).filter(Boolean).length;
    await start(RETENTION_MS);
    await pass(0);
    expect(await left()).toBe(100);
    await pass(BATCH_INTERVAL_MS);
    expect(await left()).toBe(0);
  });

  test('tells of hours that nobody saw when they become more, and not again each minute', async () => {
    const clockWasBack = (ms: number) => {
      const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
      database.exec(`UPDATE retention_hours SET clock_ms = clock_ms - ${ms}`);
      database.close();
    };
    clockWasBack(5 * HOUR_MS);
    await start(RETENTION_MS);
    await pass(0);
    await pass(ROUND_MS);
    expect(unseen.map((ms) => Math.round(ms / HOUR_MS))).toEqual([5]);
    clockWasBack(2 * HOUR_MS);
    await pass(ROUND_MS);
    await pass(ROUND_MS);
    expect(unseen.map((ms) => Math.round(ms / HOUR_MS))).toEqual([5, 7]);
  });
});
