import type { Claimed, Settled } from '../../payments/ledger.js';
import { type Claim, KEY_GENERATED, type Outcome } from '../../payments/payment.js';
import { finalOf } from '../final-row.js';
import type { PaymentRow } from './payment-row.js';
import type { Database } from './sqlite.js';

const ISSUE = `INSERT INTO idempotency_keys (key, value, expires_at) VALUES (?, '${KEY_GENERATED}', ?) ON CONFLICT DO NOTHING`;

const INSERT_CLAIM = `
  INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner, lease_until, claimed_at)
  VALUES (?, ?, ?, ?, ?, ?, 'PROCESSING', 1, ?, ?, ?)
  ON CONFLICT (key) DO NOTHING`;

const FIND = 'SELECT * FROM payments WHERE key = ?';

const TAKE_OVER = `
  UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?
  WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ? AND processor = ?
  RETURNING *`;

const TAKE_OVER_ABANDONED = `
  UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?
  WHERE key IN (
    SELECT key FROM payments
    WHERE state = 'PROCESSING' AND lease_until <= ? AND processor = ?
    ORDER BY lease_until LIMIT ?)
  RETURNING *`;

const SET_LEASE = `
  UPDATE payments SET lease_until = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

const SETTLE = `
  UPDATE payments SET state = ?, reason = ?, expires_at = ?, settled_at = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

const RECORD_OUTCOME =
  'UPDATE idempotency_keys SET value = ?, fingerprint = ?, reason = ?, expires_at = ? WHERE key = ?';

/** For a record that expired and was swept while its payment was under way, which never expires. */
const RESTORE_RECORD =
  'INSERT INTO idempotency_keys (value, fingerprint, reason, expires_at, key) VALUES (?, ?, ?, ?, ?)';

/** Keys are time-ordered, so what expired lies at the start; where nothing there has expired, little has anywhere. */
const SWEEP = `
  DELETE FROM idempotency_keys WHERE key IN (
    SELECT key FROM (SELECT key, expires_at FROM idempotency_keys ORDER BY key LIMIT ?) WHERE expires_at <= ?)`;

/** No process but this one can hold a lease on this folder, so at its start every claim is abandoned. */
const END_ALL_LEASES = `UPDATE payments SET lease_until = min(lease_until, ?) WHERE state = 'PROCESSING'`;

/** The payment area's writes. They run in the writer thread, inside the transaction of their batch, by its clock. */
export function createPaymentWrites(database: Database, keyCount: { records: number }) {
  const issue = database.prepare(ISSUE);
  const insertClaim = database.prepare(INSERT_CLAIM);
  const find = database.prepare(FIND);
  const takeOver = database.prepare(TAKE_OVER);
  const takeOverAbandoned = database.prepare(TAKE_OVER_ABANDONED);
  const setLease = database.prepare(SET_LEASE);
  const settle = database.prepare(SETTLE);
  const recordOutcome = database.prepare(RECORD_OUTCOME);
  const restoreRecord = database.prepare(RESTORE_RECORD);
  const sweep = database.prepare(SWEEP);

  return {
    /** The moment at which the key expires; null when it was issued before, which changes nothing. */
    issueKey(key: string, ttlMs: number): number | null {
      const expiresAt = Date.now() + ttlMs;
      if (issue.run(key, expiresAt).changes === 0) return null;
      keyCount.records += 1;
      return expiresAt;
    },

    /** 'claimed', or what the row that is there already means. Parameters in the order of the columns. */
    claim(
      key: string,
      transactionId: string,
      amount: string,
      currency: string,
      fingerprint: string,
      processor: string,
      owner: string,
      leaseMs: number,
      claimBefore: number,
    ): 'claimed' | Exclude<Claimed, { state: 'claimed' }> {
      const now = Date.now();
      const leaseUntil = now + leaseMs;
      if (now <= claimBefore) {
        const row = [key, transactionId, amount, currency, fingerprint, processor, owner, leaseUntil, now];
        if (insertClaim.run(...row).changes > 0) return 'claimed';
      }
      const row = find.get(key) as PaymentRow | undefined;
      if (!row) return { state: 'too late' };
      if (row.state !== 'PROCESSING') {
        const final = finalOf(row);
        return final.expiresAt > now ? { state: 'final', final } : { state: 'expired' };
      }
      const taken = takeOver.get(owner, leaseUntil, key, now, processor) as PaymentRow | undefined;
      if (taken) return { state: 'taken over', claim: claimOf(taken, now) };
      const remainingMs = Math.max(0, row.lease_until - now);
      return { state: 'under way', fingerprint: row.fingerprint, remainingMs };
    },

    takeOver(key: string, owner: string, leaseMs: number, processor: string): Claim | null {
      const now = Date.now();
      const row = takeOver.get(owner, now + leaseMs, key, now, processor) as PaymentRow | undefined;
      return row ? claimOf(row, now) : null;
    },

    takeOverAbandoned(owner: string, leaseMs: number, processor: string, limit: number): Claim[] {
      const now = Date.now();
      const rows = takeOverAbandoned.all(owner, now + leaseMs, now, processor, limit) as PaymentRow[];
      return rows.map((row) => claimOf(row, now));
    },

    renew(key: string, epoch: number, owner: string, leaseMs: number): boolean {
      return setLease.run(Date.now() + leaseMs, key, epoch, owner).changes > 0;
    },

    abandon(key: string, epoch: number, owner: string): void {
      // Now, and not long ago: recovery takes what was given up first, so one that stays unclear keeps nobody waiting.
      setLease.run(Date.now(), key, epoch, owner);
    },

    /** When it settled, the moment until which the outcome is repeated; else who finished or holds the payment. */
    settle(
      key: string,
      epoch: number,
      owner: string,
      state: Outcome['state'],
      value: string,
      reason: string | null,
      fingerprint: string,
      ttlMs: number,
    ): number | Exclude<Settled, { state: 'settled' }> {
      const now = Date.now();
      const expiresAt = now + ttlMs;
      if (settle.run(state, reason, expiresAt, now, key, epoch, owner).changes > 0) {
        if (recordOutcome.run(value, fingerprint, reason, expiresAt, key).changes === 0) {
          restoreRecord.run(value, fingerprint, reason, expiresAt, key);
          keyCount.records += 1;
        }
        return expiresAt;
      }
      const winner = find.get(key) as PaymentRow | undefined;
      return winner && winner.state !== 'PROCESSING'
        ? { state: 'final', final: finalOf(winner) }
        : { state: 'fenced off' };
    },

    /** Removes expired ones among the `limit` oldest key records. Returns how many. */
    sweepKeys(limit: number): number {
      const removed = Number(sweep.run(limit, Date.now()).changes);
      keyCount.records -= removed;
      return removed;
    },

    endAllLeases(): void {
      database.prepare(END_ALL_LEASES).run(Date.now());
    },
  };
}

function claimOf(row: PaymentRow, now: number): Claim {
  return {
    key: row.key,
    epoch: row.epoch,
    owner: row.owner,
    transactionId: row.transaction_id,
    amount: row.amount,
    currency: row.currency,
    fingerprint: row.fingerprint,
    processor: row.processor,
    ageMs: Math.max(0, now - row.claimed_at),
  };
}
