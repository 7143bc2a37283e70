import type { Transaction, TransactionFilter, TransactionStatus } from '#idempay/transactions/transaction.js';
import type { StatusChangeResult } from '#idempay/transactions/transaction-store.js';
import type { NoAnswer } from '../processes.js';

interface Request<Answer> {
  readonly sentAt: number;
  answeredAt: number | undefined;
  answer: Answer | NoAnswer | undefined;
}

/** One request about one transaction. */
export type Asked =
  | ({ readonly kind: 'get'; readonly id: number } & Request<Transaction | 'not found'>)
  | ({
      readonly kind: 'change';
      readonly id: number;
      readonly status: TransactionStatus;
      /** Of If-Match: the status that the client saw. */
      readonly onlyFrom: TransactionStatus | undefined;
    } & Request<StatusChangeResult>)
  | ({
      readonly kind: 'remove';
      readonly id: number;
      readonly onlyFrom: TransactionStatus | undefined;
    } & Request<'removed' | 'not found' | 'precondition failed'>);

export interface AskedForList extends Request<ListAnswer> {
  readonly filter: TransactionFilter;
  readonly ifNoneMatch: string | undefined;
}

export interface ListAnswer {
  readonly tag: string;
  /** Undefined: not modified. */
  readonly rows: readonly Transaction[] | undefined;
}

export interface Created extends Request<Transaction> {
  readonly from: string;
}

/** The filters that lists are asked with; the last one matches nothing. */
export const FILTERS: readonly TransactionFilter[] = [
  { from: '', to: '' },
  { from: 'A', to: '' },
  { from: '', to: 'C' },
  { from: 'B', to: 'D' },
];

/** The accounts that transactions are created with. */
export const ACCOUNTS: readonly (readonly [string, string])[] = [
  ['A', 'B'],
  ['A', 'C'],
  ['B', 'C'],
  ['B', 'D'],
];
