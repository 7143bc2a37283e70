/** What is to be paid. */
export interface PaymentRequest {
  /** A decimal number as a string, such as `'100.50'`: never through a float. */
  readonly amount: string;
  /** An ISO 4217 code, such as `'USD'`. */
  readonly currency: string;
}

/** A payment as the service shows it. */
export interface Payment {
  readonly idempotencyKey: string;
  readonly state: 'PENDING' | 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly amount: string | null;
  readonly currency: string | null;
  readonly transactionId: string | null;
  readonly processor: string | null;
  readonly attempts: number;
  readonly reason: string | null;
  readonly resolution: string | null;
  readonly createdAt: string;
  readonly claimedAt: string | null;
  readonly settledAt: string | null;
}

export type TransactionStatus =
  | 'PENDING'
  | 'PROCESSING'
  | 'ON_HOLD'
  | 'FLAGGED'
  | 'BLOCKED'
  | 'COMPLETED'
  | 'FAILED'
  | 'CANCELLED';

export interface Transaction {
  readonly transactionId: number;
  readonly fromAccount: string;
  readonly toAccount: string;
  /** Exact as it is written, at most 15 digits: `String(amount)` gives them. Add up in a decimal type, not in floats. */
  readonly amount: number;
  readonly status: TransactionStatus;
  readonly createdAt: string;
}

export interface NewTransaction {
  readonly fromAccount: string;
  readonly toAccount: string;
  /** A decimal number as a string, or a number. */
  readonly amount: string | number;
  readonly status?: TransactionStatus | undefined;
}
