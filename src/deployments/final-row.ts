import type { FinalOutcome, Outcome } from '../payments/payment.js';

/** What both databases tell of a payment that is COMPLETED or DECLINED. */
export interface FinalRow {
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly transaction_id: string;
  readonly reason: string | null;
  readonly fingerprint: string;
  /** Milliseconds since the epoch. */
  readonly expires_at: number | null;
}

export function finalOf(row: FinalRow): FinalOutcome {
  const outcome: Outcome =
    row.state === 'COMPLETED'
      ? { state: 'COMPLETED', transactionId: row.transaction_id }
      : { state: 'DECLINED', reason: row.reason ?? '' };
  return { outcome, fingerprint: row.fingerprint, expiresAt: row.expires_at ?? 0 };
}
