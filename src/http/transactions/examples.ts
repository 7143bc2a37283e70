import { transactionJson } from '../../transactions/representation.js';
import { FIRST_TRANSACTION_ID, type Transaction } from '../../transactions/transaction.js';
import { foundTransactionJson } from './reply.js';

/** The examples are written by the functions that write the answers, so that they cannot say anything else. */
export const EXAMPLE_TRANSACTION_ID = String(FIRST_TRANSACTION_ID);

const transaction: Transaction = {
  id: FIRST_TRANSACTION_ID,
  fromAccount: 'alice',
  toAccount: 'bob',
  amount: '12.34',
  status: 'PENDING',
  createdAt: Date.UTC(2026, 10, 20, 13),
  version: 1,
};

export const exampleTransaction = (changes: Partial<Transaction> = {}): unknown =>
  JSON.parse(transactionJson({ ...transaction, ...changes }));

export const exampleFoundTransaction = (): unknown => JSON.parse(foundTransactionJson(transaction));
