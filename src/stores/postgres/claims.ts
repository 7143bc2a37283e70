import type { ClaimAttempt } from '../../payments/ports/ledger.js';
import type { Fence } from '../../payments/values/payment.js';
import { isUnknown } from '../../platform/faults.js';
import { reasonOf } from '../shared/rows.js';
import type { QueueMeasure } from '../shared/store-measures.js';
import { Batcher, LANES } from './batcher.js';
import type { DatabaseClock } from './database-clock.js';
import { MAY_BE_LOST } from './database-identity-statements.js';
import { CLAIM } from './ledger-statements.js';
import type { PaymentRow } from './payment-row.js';
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

/** The insert of new payments; undefined where the row was there before, or the claim came too late. */
export function createInsertClaim(
  database: Postgres,
  clock: DatabaseClock,
  findRow: (key: string, ours: Fence) => Promise<PaymentRow | undefined>,
  queue: QueueMeasure,
): (attempt: ClaimAttempt) => Promise<Inserted | undefined> {
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
  return async function insertOrReadBack(attempt: ClaimAttempt): Promise<Inserted | undefined> {
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
  };
}
