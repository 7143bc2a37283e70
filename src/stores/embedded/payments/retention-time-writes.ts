import type { Elapsed, RetentionTime } from '../../../payments/ports/ledger.js';
import { HOUR_MS } from '../../shared/retention-hour.js';
import type { Database } from '../file/sqlite.js';

const DAY_MS = 24 * HOUR_MS;

const NEWEST = 'SELECT * FROM retention_hours ORDER BY hour DESC LIMIT 1';

const UPDATE_HOUR = `
  UPDATE retention_hours SET until_ms = ?, lowest_key_ms = min(lowest_key_ms, ?), clock_ms = ?,
    unseen_ms = unseen_ms + ?, confirmed = CASE WHEN ? > 0 THEN 0 ELSE confirmed END
  WHERE hour = ?`;

const BEGIN_HOUR = `
  INSERT INTO retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms) VALUES (?, ?, ?, ?, ?)`;

const UNCONFIRMED = 'SELECT coalesce(sum(unseen_ms), 0) AS ms FROM retention_hours WHERE NOT confirmed';

/** The expected clock time, from the clock in each hour of the past day and the time that was counted since. */
const EXPECTED_CLOCK = `
  SELECT min(lowest_key_ms - until_ms) + max(until_ms) AS ms FROM retention_hours
  WHERE until_ms >= (SELECT max(until_ms) FROM retention_hours) - ${DAY_MS}`;

interface Hour {
  readonly hour: number;
  readonly from_ms: number;
  readonly until_ms: number;
  readonly clock_ms: number;
}

/** The time that this deployment has seen pass. Runs in the writer thread, inside the transaction of its batch. */
export function createRetentionTimeWrites(database: Database, storeClock: () => number, keysFromMs: () => number) {
  const newest = database.prepare(NEWEST);
  const updateHour = database.prepare(UPDATE_HOUR);
  const beginHour = database.prepare(BEGIN_HOUR);
  const unconfirmed = database.prepare(UNCONFIRMED);
  const expectedClock = database.prepare(EXPECTED_CLOCK);
  let current = (newest.get() as unknown as Hour).hour;
  let heldUntilMs = 0;

  function expectClock(): void {
    heldUntilMs = (expectedClock.get() as { ms: number }).ms + HOUR_MS;
  }
  expectClock();

  return {
    /** The hour that is stored in a payment settled now. */
    currentHour: (): number => current,

    /** The store's clock, at most one hour ahead of the expected clock, so that a clock that jumps ahead expires nothing too early. */
    heldClock: (): number => Math.min(storeClock(), heldUntilMs),

    operations: {
      noteElapsed({ sinceMs, elapsedMs, lowestKeyMs }: Elapsed): RetentionTime {
        const hour = newest.get() as unknown as Hour;
        const now = storeClock();
        const wentBack = hour.until_ms < sinceMs;
        const seenMs = wentBack ? hour.until_ms : Math.max(hour.until_ms, sinceMs + Math.min(elapsedMs, HOUR_MS));
        const aheadMs = now - hour.clock_ms - (seenMs - hour.until_ms);
        const unseenMs = aheadMs > HOUR_MS ? aheadMs : 0;
        updateHour.run(seenMs, lowestKeyMs, now, unseenMs, unseenMs, hour.hour);
        current = hour.hour;
        if (seenMs - hour.from_ms >= HOUR_MS) {
          beginHour.run(hour.hour + 1, seenMs, seenMs, lowestKeyMs, now);
          current = hour.hour + 1;
        }
        expectClock();
        return { seenMs, keysFromMs: keysFromMs(), unseenMs: (unconfirmed.get() as { ms: number }).ms };
      },
    },
  };
}
