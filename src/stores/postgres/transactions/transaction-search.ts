import type { FoundTransactions, TransactionStore } from '../../../transactions/ports/transaction-store.js';
import { ABOVE_ALL_IDS, type TransactionSearch } from '../../../transactions/transaction.js';
import { selectionOf, type TransactionRow, transactionOf } from '../../shared/transaction-rows.js';
import type { Turns } from '../../shared/turns.js';
import type { Postgres } from '../connection/postgres.js';
import { accountParameters, NEWEST_ROWS, NEWEST_WITH_STATUS } from './transaction-statements.js';

/** A row that was found, and where the reading ended; nothing was found where the row has no id. */
type SeenRow = { readonly read_to: number | null } & (TransactionRow | { readonly id: null });

/** One statement for each page, without a snapshot. Pages take turns. */
export function createPostgresSearch(database: Postgres, turns: Turns): TransactionStore['newest'] {
  return (search, mostRead) => turns.during(search.client, () => newest(search, mostRead));

  async function newest(search: TransactionSearch, mostRead: number): Promise<FoundTransactions> {
    const { status, limit, before = ABOVE_ALL_IDS } = search;
    const selection = selectionOf(search);
    const accounts = accountParameters(search);
    // One row more than the page says whether there is a next one.
    const most = limit + 1;
    if (status === undefined) {
      const rows = await database.read<TransactionRow>(NEWEST_ROWS[selection], [before, most, ...accounts]);
      return pageOf(rows, limit);
    }
    const values = [before, mostRead, ...accounts, status, most];
    const seen = await database.read<SeenRow>(NEWEST_WITH_STATUS[selection], values);
    const found = seen.filter((row): row is SeenRow & TransactionRow => row.id !== null);
    return pageOf(found, limit, seen[0]?.read_to ?? undefined);
  }
}

function pageOf(rows: readonly TransactionRow[], limit: number, readTo?: number): FoundTransactions {
  const transactions = rows.slice(0, limit).map(transactionOf);
  return { transactions, next: rows.length > limit ? transactions.at(-1)?.id : readTo };
}
