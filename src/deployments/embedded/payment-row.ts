import { DECLINED, type FinalOutcome, type Outcome } from '../../payments/payment.js';
import type { FinalRow } from '../final-row.js';

export interface PaymentRow extends FinalRow {
  key: string;
  amount: string;
  currency: string;
  processor: string;
  epoch: number;
  owner: string;
  lease_until: number;
  claimed_at: number;
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
