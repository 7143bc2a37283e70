import type { FinalOutcome, Outcome } from '../../payments/payment.js';

/** Times leave the database as numbers: milliseconds since the epoch, or remaining ones by its own clock. */
export const PAYMENT_COLUMNS = `
  key, transaction_id, amount::text AS amount, currency, fingerprint, processor, state, epoch, owner, reason,
  greatest(0, extract(epoch FROM lease_until - clock_timestamp()) * 1000)::float8 AS remaining_ms,
  (extract(epoch FROM clock_timestamp() - claimed_at) * 1000)::float8 AS age_ms,
  floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at,
  coalesce(expires_at > clock_timestamp(), false) AS repeatable`;

export interface PaymentRow {
  key: string;
  transaction_id: string;
  amount: string;
  currency: string;
  fingerprint: string;
  processor: string;
  state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  epoch: number;
  owner: string;
  reason: string | null;
  remaining_ms: number;
  age_ms: number;
  expires_at: number | null;
  /** Final, and not past its expiry by the database's clock. */
  repeatable: boolean;
}

/** Of a row that is COMPLETED or DECLINED. */
export function finalOf(row: PaymentRow): FinalOutcome {
  const outcome: Outcome =
    row.state === 'COMPLETED'
      ? { state: 'COMPLETED', transactionId: row.transaction_id }
      : { state: 'DECLINED', reason: row.reason ?? '' };
  return { outcome, fingerprint: row.fingerprint, expiresAt: row.expires_at ?? 0 };
}
