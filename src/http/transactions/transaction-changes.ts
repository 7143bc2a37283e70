import type { Transaction } from '../../transactions/transaction.js';

/** Is told who has changed a transaction that exists. Nobody is known without `AUTH`. */
export interface TransactionChanges {
  changed(client: string, transaction: Transaction): void;
  removed(client: string, transactionId: number): void;
}
