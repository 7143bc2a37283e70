import { keyTimeOf, lowestKeyAt } from '../../payments/key-time.js';
import type { Database } from './sqlite.js';

const HORIZON = 'SELECT keys_before FROM payment_horizon';

const NEWEST = 'SELECT key FROM payments ORDER BY key DESC LIMIT 1';

const RAISE_HORIZON = 'UPDATE payment_horizon SET keys_before = ? WHERE keys_before < ?';

/** Looks at a bounded part of the oldest rows, so that one call is short also where most are still repeated. */
export const REMOVE = `
  DELETE FROM payments WHERE key IN (
    SELECT key FROM (
      SELECT key, expires_at FROM payments WHERE settled_at < ? ORDER BY settled_at, key LIMIT ?)
    WHERE expires_at <= ? AND key < ? LIMIT ?)`;

/** Rows looked at for each that may be removed. */
const LOOKED_AT = 10;

/** Removes old payments, and sees to it that none of their keys is ever claimed again. Runs in the writer thread. */
export function createPaymentHorizonWrites(database: Database, wallClock: () => number) {
  const raiseHorizon = database.prepare(RAISE_HORIZON);
  const remove = database.prepare(REMOVE);
  const newest = database.prepare(NEWEST);
  let keysBefore = (database.prepare(HORIZON).get() as { keys_before: string }).keys_before;

  /** No higher than there are rows: a clock that was ahead for a while must not refuse the keys of the time after. */
  function boundAt(ms: number): string {
    const row = newest.get() as { key: string } | undefined;
    return row ? lowestKeyAt(Math.min(ms, keyTimeOf(row.key) + 1)) : '';
  }

  return {
    /** Whether the key is so old that its row, where it has none, may have been removed. */
    mayBeRemoved: (key: string): boolean => key < keysBefore,

    operations: {
      /** Raises the horizon and removes below it in one commit; no claim runs meanwhile. Returns how many rows went. */
      removeSettled(retentionMs: number, limit: number): number {
        const now = wallClock();
        const bound = boundAt(now - retentionMs);
        // Kept also when this commit fails: then too many claims are refused until the next one, never too few.
        if (bound > keysBefore) keysBefore = bound;
        // Every time, because the commit that should have written it may have failed.
        raiseHorizon.run(keysBefore, keysBefore);
        return Number(remove.run(now - retentionMs, LOOKED_AT * limit, now, keysBefore, limit).changes);
      },
    },
  };
}
