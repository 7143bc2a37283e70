import { DECLINED, type FinalOutcome, type Outcome } from '../../../payments/values/payment.js';
import { type FinalRow, finalOf, type HistoryRow, reasonOf } from '../../shared/payment-rows.js';

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

/**
 * What a row that is not PROCESSING says at this moment. A payment with a reference never expires: its outcome is repeated, from any moment
 * on, for as long as that of any other payment.
 */
export function endStateOf(
  row: PaymentRow,
  now: number,
): { state: 'final'; final: FinalOutcome } | { state: 'cancelled' | 'expired' } {
  if (row.state === 'CANCELLED') return { state: 'cancelled' };
  const final = finalOf(row);
  if (row.reference !== null) {
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

export interface KeyRecord {
  value: string;
  fingerprint: string | null;
  reason: string | null;
  /** The client that owns the key. Where it is null, every client sees it. */
  client: string | null;
  expires_at: number;
  /** The order that the key is computed from, and which attempt at it. Both are null where the key was generated. */
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
