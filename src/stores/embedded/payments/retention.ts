import type { RemovalResult } from '../../../payments/ports/ledger.js';
import { keyTimeOf, lowestKeyAt } from '../../../payments/values/idempotency-key.js';
import { HOUR_MS } from '../../shared/retention-hour.js';
import type { Database } from '../file/sqlite.js';

const HORIZON = 'SELECT keys_before FROM payment_horizon';

const RAISE_HORIZON = 'UPDATE payment_horizon SET keys_before = ? WHERE keys_before < ?';

/** The last hour that ended so long ago, with what an operator confirmed since, and the lowest key time after it. */
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
  SELECT key, settled_at, settled_hour, expires_at, reference, client FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at < ? ORDER BY settled_at, key LIMIT ?`;

const REMOVE = 'DELETE FROM payments WHERE key = ?';

/** All attempts at a reference: none of them may be under way, or too young. An attempt is only claimed after the one before it ended. */
const REMOVE_REFERENCE = `
  DELETE FROM payments WHERE reference = ?1 AND client IS ?2 AND NOT EXISTS (
    SELECT 1 FROM payments AS other WHERE other.reference = ?1 AND other.client IS ?2
      AND (other.settled_hour IS NULL OR other.settled_hour > ?3 OR other.expires_at > ?4))`;

interface OldPayment {
  readonly key: string;
  readonly settled_at: number;
  readonly settled_hour: number;
  readonly expires_at: number;
  readonly reference: string | null;
  readonly client: string | null;
}

/** One pass over all payments that may be old enough, oldest first. It may take many calls. */
interface Pass {
  readonly hour: number;
  readonly settledBefore: number;
  readonly after: Pick<OldPayment, 'settled_at' | 'key'>;
}

/** Removes old payments, and prevents any later claim of their keys. Runs in the writer thread. */
export function createPaymentHorizonWrites(database: Database, storeClock: () => number) {
  const raiseHorizon = database.prepare(RAISE_HORIZON);
  const oldHour = database.prepare(OLD_HOUR);
  const forgetHours = database.prepare(FORGET_HOURS);
  const oldPayments = database.prepare(OLD_PAYMENTS);
  const remove = database.prepare(REMOVE);
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

  /** How many rows went: all attempts at a reference, or none of them. */
  function removeOld({ key, reference, client }: OldPayment, hour: number, now: number): number {
    if (reference !== null) return Number(removeReference.run(reference, client, hour, now).changes);
    return key < keysBefore ? Number(remove.run(key).changes) : 0;
  }

  return {
    /** Whether the key is so old that a missing row may have been removed by retention. */
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
        let removed = 0;
        for (const row of looked) {
          if (row.settled_hour <= hour && row.expires_at <= now) removed += removeOld(row, hour, now);
        }
        const last = looked.at(-1);
        pass = last && looked.length === limit ? { ...current, after: last } : undefined;
        return { removed, more: pass !== undefined };
      },
    },
  };
}
