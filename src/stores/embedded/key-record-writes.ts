import { type FinalOutcome, KEY_GENERATED, recordValueOf } from '../../payments/values/payment.js';
import { reasonOf } from '../shared/rows.js';
import type { LastCommit } from './last-commit.js';
import type { Database } from './sqlite.js';

const ISSUE = `INSERT INTO idempotency_keys (key, value, client, expires_at) VALUES (?, '${KEY_GENERATED}', ?, ?) ON CONFLICT DO NOTHING`;

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

export interface IssueWrite {
  readonly key: string;
  readonly client: string | undefined;
  readonly idempotencyTtlMs: number;
}

/** Records looked at for each that may be removed. */
const LOOKED_AT = 5;

/**
 * The writes of key records. They run in the writer thread, inside the transaction of their batch, by its clock. Expired
 * records are removed by the `heldClock`, because a record that a wrong clock removed could not be restored.
 */
export function createKeyRecordWrites(
  database: Database,
  lastCommit: Pick<LastCommit, 'keyRecords'>,
  storeClock: () => number,
  heldClock: () => number,
) {
  const issue = database.prepare(ISSUE);
  const recordOutcome = database.prepare(RECORD_OUTCOME);
  const restoreRecord = database.prepare(RESTORE_RECORD);
  const expired = database.prepare(EXPIRED);
  const lastLookedAt = database.prepare(LAST_LOOKED_AT);
  const remove = database.prepare(DELETE);
  let sweptTo = '';

  return {
    /** The final value of a key, in the commit that makes its payment final. */
    recordOutcome(key: string, { outcome, fingerprint, client, expiresAt }: FinalOutcome): void {
      const value = recordValueOf(outcome);
      const reason = reasonOf(outcome);
      if (recordOutcome.run(value, fingerprint, reason, expiresAt, key).changes > 0) return;
      restoreRecord.run(value, fingerprint, reason, expiresAt, client ?? null, key);
      lastCommit.keyRecords += 1;
    },

    operations: {
      /** The moment at which the key expires; null when it was issued before, which changes nothing. */
      issueKey({ key, client, idempotencyTtlMs }: IssueWrite): number | null {
        const expiresAt = storeClock() + idempotencyTtlMs;
        if (issue.run(key, client ?? null, expiresAt).changes === 0) return null;
        lastCommit.keyRecords += 1;
        return expiresAt;
      },

      /**
       * Removes up to `limit` expired key records. Goes on where it ended, and from the oldest again; where that finds none, it
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

export type RecordOutcome = ReturnType<typeof createKeyRecordWrites>['recordOutcome'];
