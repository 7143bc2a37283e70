import type { Transaction, TransactionFilter, TransactionStatus } from '#idempay/transactions/transaction.js';
import type { StatusChangeResult } from '#idempay/transactions/transaction-store.js';
import type { Request } from '../processes.js';

interface About<Kind, Answer> extends Request<Answer> {
  readonly kind: Kind;
  readonly id: number;
}

interface Conditional {
  /** Of If-Match: the status that the client saw. */
  readonly onlyFrom: TransactionStatus | undefined;
}

/** One request about one transaction. */
export type Asked =
  | About<'get', Transaction | 'not found'>
  | (About<'change', StatusChangeResult> & Conditional & { readonly status: TransactionStatus })
  | (About<'remove', 'removed' | 'not found' | 'precondition failed'> & Conditional);

export interface AskedForList extends Request<ListAnswer> {
  readonly filter: TransactionFilter;
  readonly ifNoneMatch: string | undefined;
}

export interface ListAnswer {
  readonly tag: string;
  /** Undefined: not modified. */
  readonly rows: readonly Transaction[] | undefined;
}

/** The filters that lists are asked with; the last one matches nothing. */
export const FILTERS = [
  { from: '', to: '' },
  { from: 'A', to: '' },
  { from: '', to: 'C' },
  { from: 'B', to: 'D' },
] as const;

/** The accounts that transactions are created with. */
const ACCOUNTS = ['AB', 'AC', 'BC', 'BD'];

export function accountsOf(number: number) {
  const [fromAccount = '', toAccount = ''] = ACCOUNTS[number % ACCOUNTS.length] ?? '';
  return { fromAccount, toAccount };
}
