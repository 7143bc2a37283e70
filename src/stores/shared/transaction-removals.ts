import type { TransactionFilter } from '../../transactions/transaction.js';

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
