import type { ClaimAttempt, ClaimResult, Ledger, Takeover } from '../../payments/ports/ledger.js';
import type { Claim } from '../../payments/values/payment.js';
import { isUnknown } from '../../platform/faults.js';
import { finalOf, reasonOf } from '../shared/rows.js';
import type { QueueMeasure } from '../shared/store-measures.js';
import { Batcher, LANES } from './batcher.js';
import type { DatabaseClock } from './database-clock.js';
import { MAY_BE_LOST } from './database-identity-statements.js';
import { CLAIM, TAKE_OVER, TAKE_OVER_DUE } from './ledger-statements.js';
import { claimOf, type FindRow, type PaymentRow } from './payment-row.js';
import type { Postgres } from './postgres.js';

/** A row that this claim inserted. */
interface Inserted {
  /** An earlier row of its key may have been lost with a failover or a restore. */
  readonly mayBeLost: boolean;
  readonly ageMs: number;
  /** Where the claim settled it: until when its outcome is repeated. */
  readonly expiresAt: number | null;
}

interface InsertedRow {
  owner: string;
  may_be_lost: boolean;
  age_ms: number;
  expires_at: number | null;
}

/** Claims and takeovers. */
export function createClaims(
  database: Postgres,
  clock: DatabaseClock,
  { findRow, mayBeRemoved }: { findRow: FindRow; mayBeRemoved: (key: string) => Promise<boolean> },
  queue: QueueMeasure,
): Pick<Ledger, 'claim' | 'takeOver' | 'takeOverDue'> {
  const claims = new Batcher<ClaimAttempt, Inserted | undefined>(insertAll, clock.clock, LANES, queue);

  /** Which of the attempts inserted their row. Sorted by key, as all batches, so that two cannot deadlock. */
  async function insertAll(attempts: readonly ClaimAttempt[]): Promise<(Inserted | undefined)[]> {
    const sorted = attempts.toSorted((a, b) => (a.key < b.key ? -1 : 1));
    const rows = await database.write<InsertedRow>(CLAIM, [
      sorted.map((attempt) => attempt.key),
      sorted.map((attempt) => attempt.transactionId),
      sorted.map((attempt) => attempt.amount),
      sorted.map((attempt) => attempt.currency),
      sorted.map((attempt) => attempt.fingerprint),
      sorted.map((attempt) => attempt.client ?? null),
      sorted.map((attempt) => attempt.processor),
      sorted.map((attempt) => attempt.owner),
      sorted.map((attempt) => attempt.leaseMs),
      sorted.map((attempt) => clock.at(attempt.claimBy)),
      sorted.map(({ settleAs }) => settleAs?.outcome.state ?? null),
      sorted.map(({ settleAs }) => reasonOf(settleAs?.outcome)),
      sorted.map(({ settleAs }) => settleAs?.idempotencyTtlMs ?? null),
    ]);
    const inserted = new Map(
      rows.map((row) => [row.owner, { mayBeLost: row.may_be_lost, ageMs: row.age_ms, expiresAt: row.expires_at }]),
    );
    return attempts.map((attempt) => {
      const row = inserted.get(attempt.owner);
      inserted.delete(attempt.owner);
      return row;
    });
  }

  /** A claim whose reply was lost is read back by its owner; a second claim would conflict with the first. */
  async function insertOrReadBack(attempt: ClaimAttempt): Promise<Inserted | undefined> {
    try {
      return await claims.add(attempt);
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(attempt.key, { ...attempt, epoch: 1 }).catch(() => undefined);
      if (row?.owner !== attempt.owner || row.epoch !== 1) throw fault;
      if (row.state !== 'PROCESSING') return { mayBeLost: false, ageMs: 0, expiresAt: row.expires_at };
      // If this read fails, assume a lost row: the claim stands, and the processor is asked first.
      const [known] = await database.read<{ mayBeLost: boolean }>(MAY_BE_LOST, [attempt.key]).catch(() => []);
      return { mayBeLost: known?.mayBeLost ?? true, ageMs: row.age_ms, expiresAt: null };
    }
  }

  async function takeOver(takeover: Takeover & { readonly key: string }): Promise<Claim | undefined> {
    const { key, owner, leaseMs, processor } = takeover;
    const values = [key, owner, leaseMs, processor];
    try {
      const [row] = await database.write<PaymentRow>(TAKE_OVER, values);
      return row && claimOf(row);
    } catch (fault) {
      // As with a claim: the reply was lost, so the owner in the row tells whether the takeover was written.
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key, { key, epoch: 0, owner }).catch(() => undefined);
      if (row?.state !== 'PROCESSING' || row.owner !== owner) throw fault;
      return claimOf(row);
    }
  }

  /** The row was there before, or the claim came too late. */
  async function explain(attempt: ClaimAttempt): Promise<ClaimResult> {
    const { key } = attempt;
    const taken = await takeOver(attempt);
    if (taken) return { state: 'taken over', claim: taken };
    const row = await findRow(key);
    if (row?.state === 'PROCESSING') {
      return { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remaining_ms };
    }
    if (!row) {
      if (await mayBeRemoved(key)) return { state: 'expired' };
      clock.synchronize().catch(() => {});
      return { state: 'too late' };
    }
    return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
  }

  return {
    async claim(attempt) {
      const inserted = await insertOrReadBack(attempt);
      if (!inserted) return explain(attempt);
      const { key, owner, transactionId, amount, currency, fingerprint, client, processor, settleAs } = attempt;
      if (settleAs && inserted.expiresAt !== null) {
        const final = { outcome: settleAs.outcome, fingerprint, client, expiresAt: inserted.expiresAt };
        return { state: 'settled', final };
      }
      // The attempt of a lost row may have charged, so the processor is asked first.
      const ageMs = inserted.mayBeLost ? inserted.ageMs : 0;
      const money = { amount, currency, fingerprint, client };
      const claim = { key, epoch: 1, owner, transactionId, ...money, processor, unsent: !inserted.mayBeLost, ageMs };
      return { state: inserted.mayBeLost ? 'taken over' : 'claimed', claim };
    },

    takeOver,

    async takeOverDue({ owner, leaseMs, processor, first, limit }) {
      const values = [owner, leaseMs, processor, limit];
      const rows = await database.write<PaymentRow>(TAKE_OVER_DUE[first], values);
      return rows.map(claimOf);
    },
  };
}
