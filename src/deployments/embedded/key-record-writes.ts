import { KEY_GENERATED } from '../../payments/payment.js';
import type { Database } from './sqlite.js';

const ISSUE = `INSERT INTO idempotency_keys (key, value, expires_at) VALUES (?, '${KEY_GENERATED}', ?) ON CONFLICT DO NOTHING`;

const RECORD_OUTCOME =
  'UPDATE idempotency_keys SET value = ?, fingerprint = ?, reason = ?, expires_at = ? WHERE key = ?';

/** For a record that expired and was swept while its payment was under way, which never expires. */
const RESTORE_RECORD =
  'INSERT INTO idempotency_keys (value, fingerprint, reason, expires_at, key) VALUES (?, ?, ?, ?, ?)';

/** Keys are time-ordered, so what expired lies at the start; where nothing there has expired, little has anywhere. */
const SWEEP = `
  DELETE FROM idempotency_keys WHERE key IN (
    SELECT key FROM (SELECT key, expires_at FROM idempotency_keys ORDER BY key LIMIT ?) WHERE expires_at <= ?)`;

/** The writes of key records. They run in the writer thread, inside the transaction of their batch, by its clock. */
export function createKeyRecordWrites(database: Database, keyCount: { records: number }, wallClock: () => number) {
  const issue = database.prepare(ISSUE);
  const recordOutcome = database.prepare(RECORD_OUTCOME);
  const restoreRecord = database.prepare(RESTORE_RECORD);
  const sweep = database.prepare(SWEEP);

  return {
    /** The final value of a key, in the commit that makes its payment final. */
    recordOutcome(key: string, value: string, fingerprint: string, reason: string | null, expiresAt: number): void {
      if (recordOutcome.run(value, fingerprint, reason, expiresAt, key).changes > 0) return;
      restoreRecord.run(value, fingerprint, reason, expiresAt, key);
      keyCount.records += 1;
    },

    operations: {
      /** The moment at which the key expires; null when it was issued before, which changes nothing. */
      issueKey(key: string, ttlMs: number): number | null {
        const expiresAt = wallClock() + ttlMs;
        if (issue.run(key, expiresAt).changes === 0) return null;
        keyCount.records += 1;
        return expiresAt;
      },

      /** Removes expired ones among the `limit` oldest key records. Returns how many. */
      sweepKeys(limit: number): number {
        const removed = Number(sweep.run(limit, wallClock()).changes);
        keyCount.records -= removed;
        return removed;
      },
    },
  };
}

export type RecordOutcome = ReturnType<typeof createKeyRecordWrites>['recordOutcome'];
