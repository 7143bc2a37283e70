import type { FindResult } from '../../../payments/ports/ledger.js';
import type { Claim, FinalOutcome } from '../../../payments/values/payment.js';
import {
  contentOf,
  type FinalRow,
  finalOf,
  type HistoryRow,
  isPending,
  openMembersOf,
  pendingOf,
  reasonOf,
  unsentMarkBefore,
} from '../../shared/payment-rows.js';

/** Every column; times are milliseconds since the epoch. */
export interface PaymentRow extends FinalRow, HistoryRow {
  readonly owner: string;
  readonly lease_until: number;
  readonly recover_at: number;
  /** By the wall clock; all other times are the store's. */
  readonly claimed_at_wall: number;
  /** The epoch that was given up with nothing ever sent; it counts while it is the row's, or the takeover's before. */
  readonly unsent_epoch: number | null;
  /** When it was claimed, an earlier row of its key may have been lost. */
  readonly claimed_after_loss: number | null;
  /** Retention's, in which it was settled. */
  readonly settled_hour: number | null;
}

/** The state of a row at this moment. */
export function foundOf(row: PaymentRow, now: number): Exclude<FindResult, { state: 'absent' }> {
  if (row.state !== 'PROCESSING') return endStateOf(row, now);
  const remainingMs = Math.max(0, row.lease_until - now);
  if (isPending(row)) return { state: 'pending', payment: pendingOf(row, remainingMs) };
  return remainingMs > 0 ? { state: 'under way', fingerprint: row.fingerprint, remainingMs } : { state: 'abandoned' };
}

/**
 * The state, at this moment, of a row that is not PROCESSING. A payment with a reference never expires, and no refund does: the outcome is
 * repeated, from any moment on, for as long as the outcome of any other payment.
 */
export function endStateOf(
  row: PaymentRow,
  now: number,
): { state: 'final'; final: FinalOutcome } | { state: 'cancelled' | 'expired' } {
  if (row.state === 'CANCELLED') return { state: 'cancelled' };
  const final = finalOf(row);
  if (row.reference !== null || row.refund_of !== null) {
    const lifeMs = final.expiresAt - (row.settled_at ?? final.expiresAt);
    return { state: 'final', final: { ...final, expiresAt: now + lifeMs } };
  }
  return final.expiresAt > now ? { state: 'final', final } : { state: 'expired' };
}

/** The settlement columns of a payment, as INSERT_CLAIM and SETTLE take them. `hour`: retention's. */
export function endOf(
  { outcome, expiresAt }: FinalOutcome,
  now: number,
  hour: number,
): readonly (string | number | null)[] {
  return [outcome.state, reasonOf(outcome), expiresAt, now, hour];
}

/** A row that is PROCESSING, which has an amount, a currency and a processor: only a closed one lacks some. */
export function claimOf(row: PaymentRow, source: string | null, now: number): Claim {
  return {
    key: row.key,
    epoch: row.epoch,
    owner: row.owner,
    transactionId: row.transaction_id,
    amount: row.amount as string,
    currency: row.currency as string,
    fingerprint: row.fingerprint,
    client: row.client ?? undefined,
    processor: row.processor as string,
    reference: row.reference ?? undefined,
    attempt: row.attempt ?? undefined,
    content: contentOf({ source, content: row.content }),
    unsent: unsentMarkBefore(row) === 'unsent',
    ageMs: now - row.claimed_at,
    claimedAtWallMs: row.claimed_at_wall,
    ...openMembersOf(row),
  };
}
