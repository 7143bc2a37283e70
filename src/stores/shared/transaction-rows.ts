import { fromTenThousandths } from '../../transactions/amount.js';
import type { Transaction, TransactionFilter, TransactionStatus } from '../../transactions/transaction.js';

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

/** Each combination of filters is a statement of its own, with an index of its own. */
export type ListSelection = 'all' | 'from' | 'to' | 'both';

export function selectionOf({ from, to }: TransactionFilter): ListSelection {
  if (from === '') return to === '' ? 'all' : 'to';
  return to === '' ? 'from' : 'both';
}

/** The accounts that the statement of the selection takes, in this order, after the id before the page and the page's length. */
export function accountsOf({ from, to }: TransactionFilter): string[] {
  return [from, to].filter((account) => account !== '');
}

export type BySelection<T> = Readonly<Record<ListSelection, T>>;

export function bySelection<T>(of: (selection: ListSelection) => T): BySelection<T> {
  return { all: of('all'), from: of('from'), to: of('to'), both: of('both') };
}

/** Removals that both databases remember: after more than these between two looks at a list, its tag is made anew. */
export const REMEMBERED_REMOVALS = 1_024;

/** One removal as both databases give it. */
export interface RemovalRow {
  /** The list version that this removal moved to, and the one that the removal before it had moved to. */
  version: number;
  previous_version: number;
  id: number;
  from_account: string;
  to_account: string;
}

/**
 * The lowest id of the filtered list that was removed after the version `since`: Infinity when none was, 0 when the removals
 * that are remembered do not reach back that far. `newestFirst`: the remembered ones after `since`, the newest first.
 */
export function firstRemovedId(
  newestFirst: readonly RemovalRow[],
  lastRemovalVersion: number,
  since: number,
  { from, to }: TransactionFilter,
): number {
  let lowest = Number.POSITIVE_INFINITY;
  let expected = lastRemovalVersion;
  for (const removal of newestFirst) {
    if (removal.version !== expected) return 0;
    const isListed = (from === '' || removal.from_account === from) && (to === '' || removal.to_account === to);
    if (isListed) lowest = Math.min(lowest, removal.id);
    expected = removal.previous_version;
  }
  return expected <= since ? lowest : 0;
}
