import { fromTenThousandths } from '../../transactions/amount.js';
import type { Transaction, TransactionStatus } from '../../transactions/transaction.js';

/** Counts leave the database as text, because as numbers large ones would not be exact; ids have 15 digits and are. */
export const TRANSACTION_COLUMNS = `
  id::float8 AS id, from_account, to_account, amount::text AS amount, status, version,
  floor(extract(epoch FROM created_at) * 1000)::float8 AS created_at`;

export interface TransactionRow {
  id: number;
  from_account: string;
  to_account: string;
  amount: string;
  status: TransactionStatus;
  version: number;
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
