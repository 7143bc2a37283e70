import type {
  Ledger,
  Left,
  Resolution,
  ResolveResult,
  SettlementAfterLoss,
  SettleResult,
} from '../../../payments/ports/ledger.js';
import { unitsOf } from '../../../payments/values/money.js';
import type { Claim, Fence, Outcome } from '../../../payments/values/payment.js';
import type { RefundPart } from '../../../payments/values/refund.js';
import { isUnknown } from '../../../platform/faults.js';
import {
  abandonedEvent,
  finalOf,
  isPending,
  reasonOf,
  settledElsewhere,
  settledEvent,
  unresolvableMs,
  unsentEpochOf,
} from '../../shared/payment-rows.js';
import type { QueueMeasure } from '../../shared/store-measures.js';
import { Batcher, LANES } from '../connection/batcher.js';
import type { DatabaseClock } from '../connection/database-clock.js';
import type { PostgresPart } from '../connection/part.js';
import * as statements from './ledger-statements.js';
import type { FindRow, PaymentRow } from './payment-row.js';
import { RESOLVE_REFUND, SETTLE_REFUND, SETTLE_REFUND_AFTER_LOSS } from './refund-statements.js';

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
  readonly unsentEpoch: number | null;
  readonly event: string;
}

interface Leaving extends FencedMs {
  readonly left: Left;
  readonly event: string;
}

/**
 * Writes that end a claim, or keep it. Each write of an attempt that holds the claim is a compare-and-set by its fence, and batches are
 * sorted by key.
 */
export function createClaimEnds(
  database: PostgresPart,
  databaseClock: DatabaseClock,
  findRow: FindRow,
  queue: (name: string) => QueueMeasure,
): Pick<Ledger, 'renew' | 'abandon' | 'leave' | 'settle' | 'settleAfterLoss' | 'resolve'> {
  const { clock } = databaseClock;
  const settlements = new Batcher<Settlement, number | undefined>(settleAll, clock, LANES, queue('settlements'));
  const renewals = new Batcher<FencedMs, boolean>(renewAll, clock, LANES, queue('renewals'));
  const abandonments = new Batcher<Abandonment, boolean>(abandonAll, clock, LANES, queue('abandonments'));
  const leavings = new Batcher<Leaving, boolean>(leaveAll, clock, LANES, queue('leavings'));

  /** The moment until which each settlement is repeated; undefined if it was fenced off. */
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
      sorted.map(({ claim }) => claim.processorId ?? null),
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
    const values = [
      ...columnsOf(sorted),
      sorted.map(({ unsentEpoch }) => unsentEpoch),
      sorted.map(({ event }) => event),
    ];
    return whichOf(batch, await database.writeHoweverLate<FencedRow>(statements.ABANDON, values));
  }

  async function leaveAll(batch: readonly Leaving[]): Promise<boolean[]> {
    const sorted = sortedByKey(batch);
    const values = [
      ...columnsOf(sorted),
      sorted.map(({ left }) => left.pendingUntilMs ?? null),
      sorted.map(({ left }) => left.clearsEnding === true),
      sorted.map(({ left }) => left.processorId ?? null),
      sorted.map(({ event }) => event),
      sorted.map(({ left }) => left.charged?.amount ?? null),
      sorted.map(({ left }) => left.charged?.currency ?? null),
      sorted.map(({ left }) => left.charged?.fingerprint ?? null),
    ];
    return whichOf(batch, await database.writeHoweverLate<FencedRow>(statements.LEAVE, values));
  }

  async function settleOnce(settlement: Settlement): Promise<number | undefined> {
    const { refund } = settlement.claim;
    return refund ? settleRefund(settlement, refund) : settlements.add(settlement);
  }

  /** When the reply was lost, the row is read to find out whether this settlement was written. */
  async function settleOrReadBack(settlement: Settlement): Promise<number | undefined> {
    try {
      return await settleOnce(settlement);
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const { claim } = settlement;
      const row = await findRow(claim.key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === claim.owner && row.epoch === claim.epoch ? (row.expires_at ?? undefined) : undefined;
    }
  }

  /** A refund is settled alone: the end of a declined one changes its payment, too. `more`: of a statement that writes more. */
  async function settleRefund(
    { claim, outcome, idempotencyTtlMs, event }: Settlement,
    { payment }: RefundPart,
    statement = SETTLE_REFUND,
    more: readonly unknown[] = [],
  ): Promise<number | undefined> {
    const { key, epoch, owner, processorId } = claim;
    const end = [outcome.state, reasonOf(outcome), idempotencyTtlMs, processorId ?? null, event, payment];
    const [row] = await database.writeHoweverLate<{ expires_at: number }>(statement, [
      key,
      epoch,
      owner,
      ...end,
      ...more,
    ]);
    return row?.expires_at;
  }

  async function settleLostOnce(claim: Claim, settlement: SettlementAfterLoss): Promise<number | undefined> {
    const { key, epoch, owner, amount, currency, fingerprint } = claim;
    const { outcome, idempotencyTtlMs, note, resolution } = settlement;
    const event = settledEvent(claim, note);
    if (claim.refund) {
      const refundEnd = { claim, outcome, idempotencyTtlMs, event };
      return settleRefund(refundEnd, claim.refund, SETTLE_REFUND_AFTER_LOSS, [amount, fingerprint, unitsOf(claim)]);
    }
    const end = [outcome.state, reasonOf(outcome), idempotencyTtlMs, event];
    const found = [amount, currency, fingerprint, resolution ?? null, claim.processorId ?? null];
    const values = [key, epoch, owner, ...end, ...found];
    const [row] = await database.writeHoweverLate<{ expires_at: number }>(statements.SETTLE_AFTER_LOSS, values);
    return row?.expires_at;
  }

  /** The same for one operation whose row may be lost. A resolution has another epoch, so that only the owner tells. */
  async function settleLostOrReadBack(claim: Claim, settlement: SettlementAfterLoss): Promise<number | undefined> {
    try {
      return await settleLostOnce(claim, settlement);
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(claim.key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === claim.owner ? (row.expires_at ?? undefined) : undefined;
    }
  }

  /** When the reply was lost, the row is read to find out whether this resolution was written. */
  async function resolveOrReadBack(resolution: Resolution): Promise<PaymentRow | undefined> {
    const { key, owner, state, reason, dedupMs, idempotencyTtlMs } = resolution;
    const values = [key, owner, state, reason, dedupMs, idempotencyTtlMs];
    // A row stays a payment, or a refund, for ever.
    const payment = (await findRow(key))?.refund_of ?? undefined;
    try {
      const [row] = payment
        ? await database.write<PaymentRow>(RESOLVE_REFUND, [...values, payment])
        : await database.write<PaymentRow>(statements.RESOLVE, values);
      return row;
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === owner ? row : undefined;
    }
  }

  async function settlementOf(claim: Claim, outcome: Outcome, expiresAt: number | undefined): Promise<SettleResult> {
    if (expiresAt === undefined) return settledElsewhere(await findRow(claim.key));
    const { fingerprint, client } = claim;
    return { state: 'settled', final: { outcome, fingerprint, client, expiresAt } };
  }

  return {
    renew: (fence, leaseMs) => renewals.add({ fence, ms: leaseMs }),

    abandon(fence, recoverAfterMs, mark, note) {
      const event = abandonedEvent(fence, note ?? { sent: mark === undefined });
      return abandonments.add({ fence, ms: recoverAfterMs, unsentEpoch: unsentEpochOf(fence, mark), event });
    },

    leave: (fence, left, note) =>
      leavings.add({ fence, ms: left.recoverAfterMs, left, event: abandonedEvent(fence, note) }),

    async settle(claim, outcome, idempotencyTtlMs, note): Promise<SettleResult> {
      const event = note ? settledEvent(claim, note) : null;
      return settlementOf(claim, outcome, await settleOrReadBack({ claim, outcome, idempotencyTtlMs, event }));
    },

    async settleAfterLoss(claim, settlement) {
      return settlementOf(claim, settlement.outcome, await settleLostOrReadBack(claim, settlement));
    },

    async resolve(resolution): Promise<ResolveResult> {
      const resolved = await resolveOrReadBack(resolution);
      if (resolved) return { state: 'resolved', final: finalOf(resolved) };
      const row = await findRow(resolution.key);
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.remaining_ms > 0) return { state: 'under way', remainingMs: row.remaining_ms };
      if (isPending(row)) {
        const now = databaseClock.at(clock.monotonic());
        return { state: 'too early', remainingMs: unresolvableMs(row, now, row.age_ms) };
      }
      const { idempotencyTtlMs, dedupMs } = resolution;
      const resolvableMs = row.unsent_epoch === row.epoch ? idempotencyTtlMs : row.unsent_epoch === 0 ? 0 : dedupMs;
      return { state: 'too early', remainingMs: Math.max(0, resolvableMs - row.age_ms) };
    },
  };
}

type FencedRow = Pick<Fence, 'key' | 'owner'>;

/** For each fence, true if its row was written: it was still the attempt's. */
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
