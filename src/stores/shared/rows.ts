import type { PaymentLife, PaymentRecord } from '../../payments/ports/payment-history.js';
import type { FinalOutcome, Outcome } from '../../payments/values/payment.js';
import { fromTenThousandths } from '../../transactions/amount.js';
import type { Transaction, TransactionStatus } from '../../transactions/transaction.js';
import { readEvents } from './payment-events.js';

/** A payment that is COMPLETED or DECLINED, as both databases give it. */
export interface FinalRow {
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly transaction_id: string;
  readonly reason: string | null;
  readonly fingerprint: string;
  /** The client that owns the key; null: every client sees it. */
  readonly client: string | null;
  /** Milliseconds since the epoch. */
  readonly expires_at: number | null;
}

export function finalOf(row: FinalRow): FinalOutcome {
  const outcome: Outcome =
    row.state === 'COMPLETED'
      ? { state: 'COMPLETED', transactionId: row.transaction_id }
      : { state: 'DECLINED', reason: row.reason ?? '' };
  return { outcome, fingerprint: row.fingerprint, client: row.client ?? undefined, expiresAt: row.expires_at ?? 0 };
}

/** As both databases keep it. */
export function reasonOf(outcome: Outcome | undefined): string | null {
  return outcome?.state === 'DECLINED' ? outcome.reason : null;
}

/** A payment for clients and operators, as both databases give it. Times: milliseconds since the epoch. */
export interface HistoryRow {
  readonly key: string;
  readonly state: PaymentRecord['state'];
  readonly transaction_id: string;
  readonly amount: string;
  readonly currency: string;
  readonly client: string | null;
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
    client: row.client ?? undefined,
    processor: row.processor,
    // A resolution has its own epoch and is not an attempt.
    attempts: row.resolution === null ? row.epoch : row.epoch - 1,
    claimedAt: row.claimed_at,
    settledAt: row.settled_at ?? undefined,
    reason: row.reason ?? undefined,
    resolution: row.resolution ?? undefined,
  };
}

/** With what only its timeline shows. */
export interface LifeRow extends HistoryRow {
  readonly owner: string;
  readonly unsent: boolean | number;
  readonly lease_until: number;
  readonly recover_at: number;
  readonly expires_at: number | null;
  readonly events: string | null;
  readonly now: number;
}

export function lifeOf(row: LifeRow): PaymentLife {
  return {
    payment: recordOf(row),
    now: row.now,
    epoch: row.epoch,
    owner: row.owner || undefined,
    unsent: Boolean(row.unsent),
    leaseUntil: row.lease_until,
    recoverAt: row.recover_at,
    expiresAt: row.expires_at ?? undefined,
    ...readEvents(row.events),
  };
}

/** A transaction as both databases give it: the amount as text, because as a number a large count would not be exact. */
export interface TransactionRow {
  id: number;
  from_account: string;
  to_account: string;
  /** A count of ten-thousandths. */
  amount: string;
  status: TransactionStatus;
  version: number;
  /** Milliseconds since the epoch. */
  created_at: number;
}

export function transactionOf(row: TransactionRow): Transaction {
  return {
    id: row.id,
    fromAccount: row.from_account,
    toAccount: row.to_account,
    amount: fromTenThousandths(row.amount),
    status: row.status,
    version: row.version,
    createdAt: row.created_at,
  };
}
