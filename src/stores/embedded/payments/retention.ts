import type { Elapsed, RemovalResult, RetentionTime } from '../../../payments/ports/ledger.js';
import { keyTimeOf, lowestKeyAt } from '../../../payments/values/idempotency-key.js';
import { HOUR_MS } from '../../shared/retention-hour.js';
import type { Database } from '../file/sqlite.js';

const HORIZON = 'SELECT keys_before FROM payment_horizon';

const RAISE_HORIZON = 'UPDATE payment_horizon SET keys_before = ? WHERE keys_before < ?';

/** The latest settlement that was removed, for readers of the feed. */
const NOTE_REMOVED = 'UPDATE payment_horizon SET removed_until = max(ifnull(removed_until, 0), ?)';

/** The last hour of at least this age, which counts the time that an operator confirmed, and the lowest key time after it. */
const OLD_HOUR = `
  SELECT hour, keys_from_ms FROM (
    SELECT hour,
      max(until_ms) OVER () - until_ms
        + coalesce(sum(CASE WHEN confirmed THEN unseen_ms ELSE 0 END) OVER younger, 0) AS age_ms,
      min(lowest_key_ms) OVER younger AS keys_from_ms
    FROM retention_hours
    WINDOW younger AS (ORDER BY hour DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
  WHERE age_ms >= ? AND keys_from_ms IS NOT NULL ORDER BY hour DESC LIMIT 1`;

/** Earlier hours are no longer needed. */
const FORGET_HOURS = 'DELETE FROM retention_hours WHERE hour < ?';

export const OLD_PAYMENTS = `
  SELECT key, settled_at, settled_hour, expires_at, reference, client, refunded, refund_of FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at < ? ORDER BY settled_at, key LIMIT ?`;

const REMOVE = 'DELETE FROM payments WHERE key = ? RETURNING settled_at';

/** A row that is under way, too young, or still repeated. */
const isKept = (row: string, hour: string, now: string) =>
  `(${row}.settled_hour IS NULL OR ${row}.settled_hour > ${hour} OR ${row}.expires_at > ${now})`;

/** A payment that has a refund which is kept. */
const hasKeptRefund = (payment: string, hour: string, now: string) => `
  EXISTS (SELECT 1 FROM payments AS refund WHERE refund.refund_of = ${payment} AND ${isKept('refund', hour, now)})`;

export const HAS_KEPT_REFUND = `SELECT ${hasKeptRefund('?1', '?2', '?3')} AS kept`;

/** An attempt is only claimed after the one before it ended. */
export const HAS_KEPT_ATTEMPT = `
  SELECT EXISTS (SELECT 1 FROM payments AS other WHERE other.reference = ?1 AND other.client IS ?2
    AND (${isKept('other', '?3', '?4')} OR (other.refunded IS NOT NULL AND ${hasKeptRefund('other.key', '?3', '?4')}))) AS kept`;

export const REMOVE_REFUNDS = 'DELETE FROM payments WHERE refund_of = ? RETURNING settled_at';

export const REMOVE_REFUNDS_OF_REFERENCE = `
  DELETE FROM payments WHERE refund_of IN (
    SELECT key FROM payments WHERE reference = ?1 AND client IS ?2 AND refunded IS NOT NULL)
  RETURNING settled_at`;

const REMOVE_REFERENCE = 'DELETE FROM payments WHERE reference = ?1 AND client IS ?2 RETURNING settled_at';

interface OldPayment {
  readonly key: string;
  readonly settled_at: number;
  readonly settled_hour: number;
  readonly expires_at: number;
  readonly reference: string | null;
  readonly client: string | null;
  /** Null if there are no refunds of it. */
  readonly refunded: number | null;
  /** Null if it is a payment. */
  readonly refund_of: string | null;
}

/** One pass over all payments that may be old enough, oldest first. It may take many calls. */
interface Pass {
  readonly hour: number;
  readonly settledBefore: number;
  readonly after: Pick<OldPayment, 'settled_at' | 'key'>;
}

/** Removes old payments, and prevents any later claim of their keys. Runs in the writer thread. */
export function createPaymentHorizon(database: Database, storeClock: () => number) {
  const raiseHorizon = database.prepare(RAISE_HORIZON);
  const oldHour = database.prepare(OLD_HOUR);
  const forgetHours = database.prepare(FORGET_HOURS);
  const oldPayments = database.prepare(OLD_PAYMENTS);
  const remove = database.prepare(REMOVE);
  const hasKeptRefund = database.prepare(HAS_KEPT_REFUND);
  const hasKeptAttempt = database.prepare(HAS_KEPT_ATTEMPT);
  const removeRefunds = database.prepare(REMOVE_REFUNDS);
  const removeRefundsOfReference = database.prepare(REMOVE_REFUNDS_OF_REFERENCE);
  const removeReference = database.prepare(REMOVE_REFERENCE);
  let keysBefore = (database.prepare(HORIZON).get() as { keys_before: string }).keys_before;
  let pass: Pass | undefined;

  function beginPass(retentionMs: number): Pass | undefined {
    const old = oldHour.get(retentionMs + HOUR_MS) as { hour: number; keys_from_ms: number } | undefined;
    if (!old) return undefined;
    const bound = lowestKeyAt(old.keys_from_ms);
    // Kept also when this commit fails: then too many claims are refused until the next one, never too few.
    if (bound > keysBefore) keysBefore = bound;
    forgetHours.run(old.hour);
    return { hour: old.hour, settledBefore: old.keys_from_ms, after: { settled_at: -1, key: '' } };
  }

  const noteRemoved = database.prepare(NOTE_REMOVED);
  const isTrue = (row: unknown) => (row as { readonly kept: number }).kept === 1;

  /** The removed rows. A payment, its refunds and all attempts at its reference are removed together, or none of them is. */
  function removeOld(
    { key, reference, client, refunded, refund_of }: OldPayment,
    hour: number,
    now: number,
  ): unknown[] {
    if (refund_of !== null) return [];
    if (reference !== null) {
      if (isTrue(hasKeptAttempt.get(reference, client, hour, now))) return [];
      return [...removeRefundsOfReference.all(reference, client), ...removeReference.all(reference, client)];
    }
    if (key >= keysBefore || (refunded !== null && isTrue(hasKeptRefund.get(key, hour, now)))) return [];
    return [...(refunded === null ? [] : removeRefunds.all(key)), ...remove.all(key)];
  }

  return {
    /** True if the key is so old that retention may have removed its missing row. */
    mayBeRemoved: (key: string): boolean => key < keysBefore,

    keysFromMs: (): number => keyTimeOf(keysBefore),

    operations: {
      /** Raises the horizon and removes below it in one commit; no claim runs meanwhile. */
      removeSettled({ retentionMs, limit }: { retentionMs: number; limit: number }): RemovalResult {
        const current = pass ?? beginPass(retentionMs);
        if (!current) return { removed: 0, more: false };
        // Every time, because the commit that should have written it may have failed.
        raiseHorizon.run(keysBefore, keysBefore);
        const now = storeClock();
        const { hour, settledBefore, after } = current;
        const looked = oldPayments.all(after.settled_at, after.key, settledBefore, limit) as unknown as OldPayment[];
        const removed = looked.flatMap((row) =>
          row.settled_hour <= hour && row.expires_at <= now ? removeOld(row, hour, now) : [],
        ) as Pick<OldPayment, 'settled_at'>[];
        if (removed.length > 0) noteRemoved.run(Math.max(...removed.map(({ settled_at }) => settled_at)));
        const last = looked.at(-1);
        pass = last && looked.length === limit ? { ...current, after: last } : undefined;
        return { removed: removed.length, more: pass !== undefined };
      },
    },
  };
}

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
export function createRetentionTime(database: Database, storeClock: () => number, keysFromMs: () => number) {
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
