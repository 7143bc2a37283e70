import type { Left, Resolution, ResolveResult, SettleResult } from '../../../payments/ports/ledger.js';
import { unitsOf } from '../../../payments/values/money.js';
import type { Fence, FinalOutcome, Outcome, UnsentMark } from '../../../payments/values/payment.js';
import { finalOf, isPending, settledElsewhere, unresolvableMs, unsentEpochOf } from '../../shared/payment-rows.js';
import type { Database } from '../file/sqlite.js';
import type { LedgerWriteParts } from './claims.js';
import * as statements from './ledger-statements.js';
import { endOf, type PaymentRow } from './payment-row.js';
import { LOWER_SUM, MOVE_SUM, SET_REFUND_UNITS } from './refund-statements.js';

export interface ResolutionWrite extends Resolution {
  /** The wall clock, milliseconds since the epoch. */
  readonly wallMs: number;
}

export interface AbandonWrite extends Fence {
  readonly recoverAfterMs: number;
  readonly mark: UnsentMark | undefined;
  readonly event: string;
}

export interface LeaveWrite extends Fence, Left {
  readonly event: string;
}

export interface SettleWrite extends Fence {
  readonly fingerprint: string;
  readonly client: string | undefined;
  readonly outcome: Outcome;
  readonly idempotencyTtlMs: number;
  /** If omitted, the row keeps its name of the charge. */
  readonly processorId?: string | undefined;
  /** Event for the timeline; undefined for a first attempt that settles. */
  readonly event?: string | undefined;
  /** The row is a refund. If omitted, it is a payment. */
  readonly isRefund?: boolean | undefined;
}

export interface SettleAfterLossWrite extends SettleWrite {
  readonly amount: string;
  readonly currency: string;
  readonly resolution?: string | undefined;
  readonly event: string;
}

/** Writes that end a claim, or keep it. They run in the writer thread, inside the transaction of their batch, by its clock. */
export function createClaimEnds(database: Database, parts: LedgerWriteParts) {
  const { sources, recordOutcome, currentHour, storeClock } = parts;
  const find = database.prepare(statements.FIND);
  const setLease = database.prepare(statements.SET_LEASE);
  const abandon = database.prepare(statements.ABANDON);
  const leave = database.prepare(statements.LEAVE);
  const settle = database.prepare(statements.SETTLE);
  const settleNoted = database.prepare(statements.SETTLE_NOTED);
  const settleAfterLoss = database.prepare(statements.SETTLE_AFTER_LOSS);
  const resolve = database.prepare(statements.RESOLVE);
  const lowerSum = database.prepare(LOWER_SUM);
  const moveSum = database.prepare(MOVE_SUM);
  const setRefundUnits = database.prepare(SET_REFUND_UNITS);

  /** The further changes of a commit that has made a row final. A refund has no source, and no record. */
  function finish(key: string, final: FinalOutcome, isRefund: boolean): void {
    if (!isRefund) {
      sources.erase(key);
      recordOutcome(key, final);
    } else if (final.outcome.state === 'DECLINED') lowerSum.run(key);
  }

  /** When it settled, the moment until which the outcome is repeated; else who finished or holds the payment. */
  function settleBy(
    { key, epoch, owner, fingerprint, client, outcome, idempotencyTtlMs, processorId, isRefund = false }: SettleWrite,
    run: (end: readonly (string | number | null)[], now: number, fence: [string, number, string]) => boolean,
  ): number | Exclude<SettleResult, { state: 'settled' }> {
    const now = storeClock();
    const final = { outcome, fingerprint, client, expiresAt: now + idempotencyTtlMs };
    if (run([...endOf(final, now, currentHour()), processorId ?? null], now, [key, epoch, owner])) {
      finish(key, final, isRefund);
      return final.expiresAt;
    }
    return settledElsewhere(find.get(key) as PaymentRow | undefined);
  }

  return {
    renew({ key, epoch, owner, leaseMs }: Fence & { leaseMs: number }): boolean {
      const leaseUntil = storeClock() + leaseMs;
      return setLease.run(leaseUntil, leaseUntil, key, epoch, owner).changes > 0;
    },

    abandon({ key, epoch, owner, recoverAfterMs, mark, event }: AbandonWrite): boolean {
      const now = storeClock();
      const recoverAt = now + Math.ceil(recoverAfterMs);
      const unsentEpoch = unsentEpochOf({ epoch }, mark);
      return abandon.run(recoverAt, unsentEpoch, `${now}`, event, key, epoch, owner).changes > 0;
    },

    leave({
      key,
      epoch,
      owner,
      recoverAfterMs,
      pendingUntilMs,
      clearsEnding,
      processorId,
      charged,
      event,
    }: LeaveWrite): boolean {
      const now = storeClock();
      const until = pendingUntilMs === undefined ? null : Math.floor(pendingUntilMs);
      const left = [now + Math.ceil(recoverAfterMs), until, Number(clearsEnding === true), processorId ?? null];
      const money = [charged?.amount ?? null, charged?.currency ?? null, charged?.fingerprint ?? null];
      return leave.run(...left, ...money, `${now}`, event, key, owner, epoch).changes > 0;
    },

    settle(settlement: SettleWrite): number | Exclude<SettleResult, { state: 'settled' }> {
      return settleBy(settlement, (end, now, fence) => {
        const { event } = settlement;
        const { changes } =
          event === undefined ? settle.run(...end, ...fence) : settleNoted.run(...end, `${now}`, event, ...fence);
        return changes > 0;
      });
    },

    settleAfterLoss(settlement: SettleAfterLossWrite): number | Exclude<SettleResult, { state: 'settled' }> {
      return settleBy(settlement, (end, now, fence) => {
        const { resolution = null, event, amount, currency, fingerprint, isRefund, key } = settlement;
        const found = [amount, currency, fingerprint, resolution, resolution];
        const isOurs = settleAfterLoss.run(...end, `${now}`, event, ...found, ...fence).changes > 0;
        if (isOurs && isRefund) {
          const units = unitsOf(settlement);
          moveSum.run(key, units);
          setRefundUnits.run(key, units);
        }
        return isOurs;
      });
    },

    resolve({ key, owner, state, reason, dedupMs, idempotencyTtlMs, wallMs }: ResolutionWrite): ResolveResult {
      const now = storeClock();
      const declined = state === 'DECLINED' ? reason : null;
      const latestClaims = [...[now, wallMs].flatMap((ms) => [ms - idempotencyTtlMs, ms - dedupMs]), now, wallMs];
      const expiresAt = now + idempotencyTtlMs;
      const end = [state, declined, reason, expiresAt, now, currentHour()];
      const resolved = resolve.get(...end, owner, `${now}`, key, now, ...latestClaims) as PaymentRow | undefined;
      if (resolved) {
        const final = finalOf(resolved);
        finish(key, final, resolved.refund_of !== null);
        return { state: 'resolved', final };
      }
      const row = find.get(key) as PaymentRow | undefined;
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.lease_until > now) return { state: 'under way', remainingMs: row.lease_until - now };
      const ageMs = Math.max(now - row.claimed_at, wallMs - row.claimed_at_wall);
      if (isPending(row)) {
        return { state: 'too early', remainingMs: unresolvableMs(row, Math.max(now, wallMs), ageMs) };
      }
      return { state: 'too early', remainingMs: resolvableAfterMs(row, dedupMs, idempotencyTtlMs) - ageMs };
    },

    endAllLeases(): void {
      database.prepare(statements.END_ALL_LEASES).run({ now: storeClock() });
      database.prepare(statements.END_PENDING_LEASES).run();
    },
  };
}

/** The age at which an operator may resolve a payment that is not pending. */
function resolvableAfterMs({ epoch, unsent_epoch }: PaymentRow, dedupMs: number, idempotencyTtlMs: number): number {
  if (unsent_epoch === epoch) return idempotencyTtlMs;
  return unsent_epoch === 0 ? 0 : dedupMs;
}
