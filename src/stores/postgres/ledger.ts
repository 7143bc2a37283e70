import {
  type ClaimAttempt,
  type ClaimResult,
  type FindResult,
  type Ledger,
  MOST_COUNTED,
  type Resolution,
  type ResolveResult,
  type SettleResult,
  type Takeover,
} from '../../payments/ports/ledger.js';
import { type Claim, type Fence, type FinalOutcome, isVisibleTo, type Outcome } from '../../payments/values/payment.js';
import { isUnknown } from '../../platform/faults.js';
import { abandonedEvent, settledEvent } from '../shared/payment-events.js';
import { finalOf, reasonOf } from '../shared/rows.js';
import { NOT_MEASURED, type StoreMeasures } from '../shared/store-measures.js';
import { Batcher, LANES } from './batcher.js';
import { createInsertClaim } from './claims.js';
import type { DatabaseClock } from './database-clock.js';
import type { ConfirmDurable } from './durability.js';
import * as statements from './ledger-statements.js';
import { createPaymentHorizon } from './payment-horizon.js';
import type { PaymentRow } from './payment-row.js';
import type { Postgres } from './postgres.js';
import { createNoteElapsed } from './retention-time.js';

interface Settlement {
  readonly claim: Claim;
  readonly outcome: Outcome;
  readonly idempotencyTtlMs: number;
  /** Event for the timeline; null for a first attempt that settles. */
  readonly event: string | null;
}

interface FencedMs {
  readonly fence: Fence;
  readonly ms: number;
}

interface Abandonment extends FencedMs {
  readonly unsent: boolean;
  readonly event: string;
}

/** The payment rows in PostgreSQL. Every write is one statement that commits by itself; leases are the database's. */
export function createPostgresLedger(
  database: Postgres,
  clock: DatabaseClock,
  confirmDurable: ConfirmDurable,
  measures: StoreMeasures = NOT_MEASURED,
): Ledger {
  const queue = (name: string) => measures.queue('postgresql', name);
  const settlements = new Batcher<Settlement, number | undefined>(settleAll, clock.clock, LANES, queue('settlements'));
  const renewals = new Batcher<FencedMs, boolean>(renewAll, clock.clock, LANES, queue('renewals'));
  const abandonments = new Batcher<Abandonment, boolean>(abandonAll, clock.clock, LANES, queue('abandonments'));
  /** Each call is answered by a statement that was sent after the call began (decisions P17). */
  const finds = new Batcher<string, PaymentRow | undefined>(findAll, clock.clock, LANES, queue('finds'));
  const horizon = createPaymentHorizon(database);
  const insertClaim = createInsertClaim(database, clock, findRow, queue('claims'));

  /** Of each settlement the moment until which it is repeated, or undefined when it was fenced off. */
  async function settleAll(batch: readonly Settlement[]): Promise<(number | undefined)[]> {
    const sorted = batch.toSorted((a, b) => (a.claim.key < b.claim.key ? -1 : 1));
    const isNoted = batch.some(({ event }) => event !== null);
    const statement = isNoted ? statements.SETTLE_NOTED : statements.SETTLE;
    const rows = await database.writeHoweverLate<{ key: string; owner: string; expires_at: number }>(statement, [
      sorted.map(({ claim }) => claim.key),
      sorted.map(({ claim }) => claim.epoch),
      sorted.map(({ claim }) => claim.owner),
      sorted.map(({ outcome }) => outcome.state),
      sorted.map(({ outcome }) => reasonOf(outcome)),
      sorted.map(({ idempotencyTtlMs }) => idempotencyTtlMs),
      ...(isNoted ? [sorted.map(({ event }) => event)] : []),
    ]);
    const expiries = new Map(rows.map((row) => [`${row.key} ${row.owner}`, row.expires_at]));
    return batch.map(({ claim }) => {
      const name = `${claim.key} ${claim.owner}`;
      const expiresAt = expiries.get(name);
      // If a batch has two settlements of one claim, only one of them was written.
      expiries.delete(name);
      return expiresAt;
    });
  }

  async function renewAll(batch: readonly FencedMs[]): Promise<boolean[]> {
    const rows = await database.writeHoweverLate<FencedRow>(statements.RENEW, columnsOf(sortedByKey(batch)));
    return whichOf(batch, rows);
  }

  async function abandonAll(batch: readonly Abandonment[]): Promise<boolean[]> {
    const sorted = sortedByKey(batch);
    const values = [...columnsOf(sorted), sorted.map(({ unsent }) => unsent), sorted.map(({ event }) => event)];
    return whichOf(batch, await database.writeHoweverLate<FencedRow>(statements.ABANDON, values));
  }

  async function findAll(keys: readonly string[]): Promise<(PaymentRow | undefined)[]> {
    // A thousand repeats of one key ask for one row.
    const rows = await database.read<PaymentRow>(statements.FIND, [[...new Set(keys)]]);
    const byKey = new Map(rows.map((row) => [row.key, row]));
    return keys.map((key) => byKey.get(key));
  }

  /** A row that is final, or ours, decides an answer, so it is returned only when it is durable, and remembered like a commit. */
  async function findRow(key: string, ours?: Fence): Promise<PaymentRow | undefined> {
    const row = await finds.add(key);
    if (row && (row.state !== 'PROCESSING' || row.owner === ours?.owner)) {
      await confirmDurable();
      database.lastCommits?.add({ key, epoch: row.epoch, settled: row.state !== 'PROCESSING' });
    }
    return row;
  }

  async function takeOver(takeover: Takeover & { readonly key: string }): Promise<Claim | undefined> {
    const { key, owner, leaseMs, processor } = takeover;
    const values = [key, owner, leaseMs, processor];
    try {
      const [row] = await database.write<PaymentRow>(statements.TAKE_OVER, values);
      return row && claimOf(row);
    } catch (fault) {
      // As with a claim: the reply was lost, so the owner in the row tells whether the takeover was written.
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key, { key, epoch: 0, owner }).catch(() => undefined);
      if (row?.state !== 'PROCESSING' || row.owner !== owner) throw fault;
      return claimOf(row);
    }
  }

  async function find(key: string, client?: string): Promise<FindResult> {
    const row = await findRow(key);
    if (!row || !isVisibleTo(client, row.client)) return { state: 'absent' };
    if (row.state !== 'PROCESSING') {
      return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
    }
    return row.remaining_ms > 0
      ? { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remaining_ms }
      : { state: 'abandoned' };
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
      if (await horizon.mayBeRemoved(key)) return { state: 'expired' };
      clock.synchronize().catch(() => {});
      return { state: 'too late' };
    }
    return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
  }

  /** When the reply was lost, the row is read to find out whether this settlement was written. */
  async function settleOrReadBack(settlement: Settlement): Promise<number | undefined> {
    try {
      return await settlements.add(settlement);
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const { claim } = settlement;
      const row = await findRow(claim.key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === claim.owner && row.epoch === claim.epoch ? (row.expires_at ?? undefined) : undefined;
    }
  }

  /** When the reply was lost, the row is read to find out whether this resolution was written. */
  async function resolveOrReadBack(resolution: Resolution): Promise<PaymentRow | undefined> {
    const { key, owner, state, reason, dedupMs, idempotencyTtlMs } = resolution;
    try {
      const values = [key, owner, state, reason, dedupMs, idempotencyTtlMs];
      const [row] = await database.write<PaymentRow>(statements.RESOLVE, values);
      return row;
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === owner ? row : undefined;
    }
  }

  return {
    async claim(attempt) {
      const inserted = await insertClaim(attempt);
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

    find,

    takeOver,

    async takeOverDue({ owner, leaseMs, processor, first, limit }) {
      const values = [owner, leaseMs, processor, limit];
      const rows = await database.write<PaymentRow>(statements.TAKE_OVER_DUE[first], values);
      return rows.map(claimOf);
    },

    renew: (fence, leaseMs) => renewals.add({ fence, ms: leaseMs }),

    abandon(fence, recoverAfterMs, mark, note) {
      const unsent = mark === 'unsent';
      const event = abandonedEvent(fence, note ?? { sent: !unsent });
      return abandonments.add({ fence, ms: recoverAfterMs, unsent, event });
    },

    async settle(claim, outcome, idempotencyTtlMs, note): Promise<SettleResult> {
      const event = note ? settledEvent(claim, note) : null;
      const expiresAt = await settleOrReadBack({ claim, outcome, idempotencyTtlMs, event });
      if (expiresAt !== undefined) {
        const { fingerprint, client } = claim;
        const final: FinalOutcome = { outcome, fingerprint, client, expiresAt };
        return { state: 'settled', final };
      }
      const row = await findRow(claim.key);
      return row && row.state !== 'PROCESSING' ? { state: 'final', final: finalOf(row) } : { state: 'fenced off' };
    },

    async resolve(resolution): Promise<ResolveResult> {
      const resolved = await resolveOrReadBack(resolution);
      if (resolved) return { state: 'resolved', final: finalOf(resolved) };
      const row = await findRow(resolution.key);
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.remaining_ms > 0) return { state: 'under way', remainingMs: row.remaining_ms };
      const unresolvableMs = row.unsent_epoch === row.epoch ? resolution.idempotencyTtlMs : resolution.dedupMs;
      return { state: 'too early', remainingMs: Math.max(0, unresolvableMs - row.age_ms) };
    },

    async endedUnclaimed(key, lifeMs, client) {
      return (await database.read(statements.ENDED_UNCLAIMED, [key, lifeMs, client ?? null])).length > 0;
    },

    async countAbandoned(...ages) {
      const [counted] = await database.read<{ abandoned: number }>(statements.COUNT_ABANDONED, [...ages, MOST_COUNTED]);
      return counted?.abandoned ?? 0;
    },

    async backlog() {
      const [row] = await database.read<{ payments: number; oldest_ms: number }>(statements.BACKLOG, [MOST_COUNTED]);
      return { payments: row?.payments ?? 0, oldestMs: Math.max(0, row?.oldest_ms ?? 0) };
    },

    noteElapsed: createNoteElapsed(database),

    removeSettled: horizon.removeSettled,
  };
}

type FencedRow = Pick<Fence, 'key' | 'owner'>;

/** Of each fence whether its row was written: it was still the attempt's. */
function whichOf(batch: readonly FencedMs[], rows: readonly FencedRow[]): boolean[] {
  const written = new Set(rows.map((row) => `${row.key} ${row.owner}`));
  return batch.map(({ fence }) => written.has(`${fence.key} ${fence.owner}`));
}

/** Every batch locks its rows in key order, so that two batches cannot deadlock. */
function sortedByKey<T extends FencedMs>(batch: readonly T[]): T[] {
  return batch.toSorted((a, b) => (a.fence.key < b.fence.key ? -1 : 1));
}

function columnsOf(sorted: readonly FencedMs[]): unknown[][] {
  return [
    sorted.map(({ fence }) => fence.key),
    sorted.map(({ fence }) => fence.epoch),
    sorted.map(({ fence }) => fence.owner),
    sorted.map(({ ms }) => ms),
  ];
}

function claimOf(row: PaymentRow): Claim {
  const { key, epoch, owner, amount, currency, fingerprint, processor } = row;
  const client = row.client ?? undefined;
  const unsent = row.unsent_epoch === row.epoch - 1;
  const transactionId = row.transaction_id;
  return {
    key,
    epoch,
    owner,
    transactionId,
    amount,
    currency,
    fingerprint,
    client,
    processor,
    unsent,
    ageMs: row.age_ms,
  };
}
