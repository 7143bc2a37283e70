import { fromTenThousandths } from '../../transactions/amount.js';
import type { Transaction, TransactionStatus } from '../../transactions/transaction.js';

export interface TransactionRow {
  id: number;
  from_account: string;
  to_account: string;
  amount: string;
  status: TransactionStatus;
  version: number;
  created_at: number;
}

/** The amount is read as text: as a number, a large count of ten-thousandths would not be exact. */
export const TRANSACTION_COLUMNS =
  'id, from_account, to_account, CAST(amount AS TEXT) AS amount, status, version, created_at';

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
