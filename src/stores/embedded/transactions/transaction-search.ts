import type { TransactionStore } from '../../../transactions/ports/transaction-store.js';
import { ABOVE_ALL_IDS, type Transaction, type TransactionStatus } from '../../../transactions/transaction.js';
import {
  accountsOf,
  bySelection,
  selectionOf,
  type TransactionRow,
  transactionOf,
} from '../../shared/transaction-rows.js';
import type { Reader } from '../reader.js';
import { NEWEST_EXTENT, NEWEST_ROWS, ROWS_WITH_STATUS } from './transaction-statements.js';

/** Rows looked at for a status at a time, about a millisecond: other requests are served between two steps. */
const STEP = 1_000;

/**
 * Reads backwards in short steps, each of which sees the newest commit: no snapshot is held. Ids are never used again and new
 * ones are higher, so consecutive steps miss no row that existed during the whole search.
 */
export function createEmbeddedSearch(reader: Reader): TransactionStore['newest'] {
  const { listReads } = reader;
  const newest = bySelection((selection) => reader.prepare(NEWEST_ROWS[selection]));
  const extents = bySelection((selection) => reader.prepare(NEWEST_EXTENT[selection]));
  const withStatus = bySelection((selection) => reader.prepare(ROWS_WITH_STATUS[selection]));

  return async (search, mostRead) => {
    const { client, status, limit, before = ABOVE_ALL_IDS } = search;
    const selection = selectionOf(search);
    const accounts = accountsOf(search);

    /** The next rows that have the status. Their range is read first, so a concurrent removal only makes the second read shorter. */
    function step(below: number, most: number, wanted: TransactionStatus) {
      const extent = extents[selection].get(below, most, ...accounts) as { length: number; lowest: number | null };
      const { length, lowest } = extent;
      const rows = lowest === null ? [] : withStatus[selection].all(below, lowest, wanted, ...accounts);
      return { rows: rows as TransactionRow[], length, lowest };
    }

    if (status === undefined) {
      // One row more than the page says whether there is a next one.
      const rows = () => newest[selection].all(before, limit + 1, ...accounts) as TransactionRow[];
      const found = (await listReads.page(client, STEP, rows)).map(transactionOf);
      const transactions = found.slice(0, limit);
      return { transactions, next: found.length > limit ? transactions.at(-1)?.id : undefined };
    }
    const found: Transaction[] = [];
    let below = before;
    for (let left = mostRead; left > 0 && found.length < limit; ) {
      const most = Math.min(STEP, left);
      const seen = await listReads.part(
        client,
        () => step(below, most, status),
        ({ length }) => length / STEP,
      );
      found.push(...seen.rows.map(transactionOf));
      if (seen.length < most && found.length <= limit) return { transactions: found, next: undefined };
      left -= seen.length;
      below = seen.lowest ?? below;
    }
    const transactions = found.slice(0, limit);
    return { transactions, next: found.length > limit ? transactions.at(-1)?.id : below };
  };
}
