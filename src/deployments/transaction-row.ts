import { fromTenThousandths } from '../transactions/amount.js';
import type { Transaction, TransactionStatus } from '../transactions/transaction.js';

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
