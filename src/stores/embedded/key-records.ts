import type { KeyBinding } from '../../payments/ports/key-store.js';
import { isComputed } from '../../payments/values/computed-key.js';
import {
  DECLINED,
  type FinalOutcome,
  KEY_GENERATED,
  type Outcome,
  recordValueOf,
} from '../../payments/values/payment.js';
import { reasonOf } from '../shared/payment-rows.js';
import type { LastCommit } from './file/last-commit.js';
import type { Database } from './file/sqlite.js';

const ISSUE = `
  INSERT INTO idempotency_keys (key, value, client, expires_at, reference, attempt) VALUES (?, '${KEY_GENERATED}', ?, ?, ?, ?)
  ON CONFLICT DO NOTHING`;

/** Only the key of a reference is issued more than once. */
const LENGTHEN = `UPDATE idempotency_keys SET expires_at = ? WHERE key = ? AND value = '${KEY_GENERATED}'`;

const HAS_ROW = 'SELECT 1 FROM payments WHERE key = ?';

const RECORD_OUTCOME =
  'UPDATE idempotency_keys SET value = ?, fingerprint = ?, reason = ?, expires_at = ? WHERE key = ?';

/** Restores a record that expired and was swept while its payment was under way. */
const RESTORE_RECORD =
  'INSERT INTO idempotency_keys (value, fingerprint, reason, expires_at, client, key) VALUES (?, ?, ?, ?, ?, ?)';

/** A bounded part of the records, behind the one that was looked at last. */
const EXPIRED = `
  SELECT key FROM (SELECT key, expires_at FROM idempotency_keys WHERE key > ? ORDER BY key LIMIT ?)
  WHERE expires_at <= ? LIMIT ?`;

const LAST_LOOKED_AT = 'SELECT key FROM idempotency_keys WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?';

const DELETE = 'DELETE FROM idempotency_keys WHERE key = ?';

export interface IssueWrite extends KeyBinding {
  readonly key: string;
  readonly idempotencyTtlMs: number;
}

/** Records looked at for each that may be removed. */
const LOOKED_AT = 5;

/**
 * The writes of key records. They run in the writer thread, inside the transaction of their batch, by its clock. Expired
 * records are removed by the `heldClock`, because a record that a wrong clock removed could not be restored.
 */
export function createKeyRecords(
  database: Database,
  lastCommit: Pick<LastCommit, 'keyRecords'>,
  storeClock: () => number,
  heldClock: () => number,
) {
  const issue = database.prepare(ISSUE);
  const lengthen = database.prepare(LENGTHEN);
  const findRow = database.prepare(HAS_ROW);
  const recordOutcome = database.prepare(RECORD_OUTCOME);
  const restoreRecord = database.prepare(RESTORE_RECORD);
  const expired = database.prepare(EXPIRED);
  const lastLookedAt = database.prepare(LAST_LOOKED_AT);
  const remove = database.prepare(DELETE);
  let sweptTo = '';

  return {
    /** The final value of a key, in the commit that makes its payment final. The row of a reference answers by itself. */
    recordOutcome(key: string, { outcome, fingerprint, client, expiresAt }: FinalOutcome): void {
      const value = recordValueOf(outcome);
      const reason = reasonOf(outcome);
      if (recordOutcome.run(value, fingerprint, reason, expiresAt, key).changes > 0 || isComputed(key)) return;
      restoreRecord.run(value, fingerprint, reason, expiresAt, client ?? null, key);
      lastCommit.keyRecords += 1;
    },

    forgetRecord(key: string): void {
      lastCommit.keyRecords -= Number(remove.run(key).changes);
    },

    operations: {
      /** The moment at which the key expires; null when it was paid or issued before, which changes nothing. */
      issueKey({ key, client, reference, idempotencyTtlMs }: IssueWrite): number | null {
        const expiresAt = storeClock() + idempotencyTtlMs;
        if (reference && findRow.get(key)) return null;
        if (reference && lengthen.run(expiresAt, key).changes > 0) return expiresAt;
        const values = [key, client ?? null, expiresAt, reference?.text ?? null, reference?.attempt ?? null];
        if (issue.run(...values).changes === 0) return null;
        lastCommit.keyRecords += 1;
        return expiresAt;
      },

      /**
       * Removes up to `limit` expired key records. Goes on where it ended, and from the oldest again; if that finds none, it
       * looks at the oldest, which are the next to expire: a way through ten million takes half an hour. Returns how many.
       */
      sweepKeys({ limit }: { limit: number }): number {
        const looked = LOOKED_AT * limit;
        let keys = expired.all(sweptTo, looked, heldClock(), limit) as { key: string }[];
        const last = (keys.length === limit ? keys.at(-1) : lastLookedAt.get(sweptTo, looked - 1)) as
          | { key: string }
          | undefined;
        sweptTo = last?.key ?? '';
        if (keys.length === 0) keys = expired.all('', looked, heldClock(), limit) as { key: string }[];
        for (const { key } of keys) lastCommit.keyRecords -= Number(remove.run(key).changes);
        return keys.length;
      },
    },
  };
}

export type RecordOutcome = ReturnType<typeof createKeyRecords>['recordOutcome'];

export interface KeyRecord {
  value: string;
  fingerprint: string | null;
  reason: string | null;
  /** The client whose key it is. If it is null, every client sees the key. */
  client: string | null;
  expires_at: number;
  /** The order that the key is computed from, and which attempt at it. Both are null if the key was generated. */
  reference: string | null;
  attempt: number | null;
}

/** The outcome in a record whose value is no longer `KEY GENERATED`. */
export function finalOfRecord(record: KeyRecord): FinalOutcome {
  const outcome: Outcome =
    record.value === DECLINED
      ? { state: 'DECLINED', reason: record.reason ?? '' }
      : { state: 'COMPLETED', transactionId: record.value };
  const { fingerprint, client, expires_at: expiresAt } = record;
  return { outcome, fingerprint: fingerprint ?? '', client: client ?? undefined, expiresAt };
}
