import type { TransactionFilter } from '../../transactions/transaction.js';

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
