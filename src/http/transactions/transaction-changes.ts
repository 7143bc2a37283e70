import type { Transaction } from '../../transactions/transaction.js';

/** Hears which client has changed a transaction that exists. Without `AUTH` there are no clients, so it hears nothing. */
export interface TransactionChanges {
  changed(client: string, transaction: Transaction): void;
  removed(client: string, transactionId: number): void;
}
