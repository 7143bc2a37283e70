import type { PaymentRecord } from '../payments/payment-history.js';

/** What both databases tell of a payment as clients and operators look at it. Times: milliseconds since the epoch. */
export interface HistoryRow {
  readonly key: string;
  readonly state: PaymentRecord['state'];
  readonly transaction_id: string;
  readonly amount: string;
  readonly currency: string;
  readonly processor: string;
  readonly epoch: number;
  readonly claimed_at: number;
  readonly settled_at: number | null;
  readonly reason: string | null;
  readonly resolution: string | null;
}

export function recordOf(row: HistoryRow): PaymentRecord {
  return {
    key: row.key,
    state: row.state,
    transactionId: row.transaction_id,
    amount: row.amount,
    currency: row.currency,
    processor: row.processor,
    // A resolution has an epoch of its own, and sets to work on nothing.
    attempts: row.resolution === null ? row.epoch : row.epoch - 1,
    claimedAt: row.claimed_at,
    settledAt: row.settled_at ?? undefined,
    reason: row.reason ?? undefined,
    resolution: row.resolution ?? undefined,
  };
}
