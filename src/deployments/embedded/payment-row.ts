import { DECLINED, type FinalOutcome, type Outcome } from '../../payments/payment.js';

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
  lease_until: number;
  expires_at: number | null;
  reason: string | null;
  claimed_at: number;
}

/** Of a row that is COMPLETED or DECLINED. */
export function finalOf(row: PaymentRow): FinalOutcome {
  const outcome: Outcome =
    row.state === 'COMPLETED'
      ? { state: 'COMPLETED', transactionId: row.transaction_id }
      : { state: 'DECLINED', reason: row.reason ?? '' };
  return { outcome, fingerprint: row.fingerprint, expiresAt: row.expires_at ?? 0 };
}

export interface KeyRecord {
  value: string;
  fingerprint: string | null;
  reason: string | null;
  expires_at: number;
}

/** Of a record whose value is no longer `KEY GENERATED`. */
export function finalOfRecord(record: KeyRecord): FinalOutcome {
  const outcome: Outcome =
    record.value === DECLINED
      ? { state: 'DECLINED', reason: record.reason ?? '' }
      : { state: 'COMPLETED', transactionId: record.value };
  return { outcome, fingerprint: record.fingerprint ?? '', expiresAt: record.expires_at };
}
