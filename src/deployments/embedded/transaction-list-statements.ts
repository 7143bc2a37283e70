import type { ListSelection } from '../list-selection.js';
import { TRANSACTION_COLUMNS } from './transaction-columns.js';

/**
 * A page of each list is one range of one index, which is named: nothing that SQLite may find out about the data can choose
 * another one. Parameters: the id before the page, the page's length, then the accounts. Every index of SQLite ends with the row's id.
 */
const PAGES: Readonly<Record<ListSelection, string>> = {
  all: 'transactions NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2',
  from: `transactions INDEXED BY transactions_by_from_account
    WHERE from_account = ?3 AND id > ?1 ORDER BY id LIMIT ?2`,
  to: `transactions INDEXED BY transactions_by_to_account
    WHERE to_account = ?3 AND id > ?1 ORDER BY id LIMIT ?2`,
  both: `transactions INDEXED BY transactions_by_both_accounts
    WHERE from_account = ?3 AND to_account = ?4 AND id > ?1 ORDER BY id LIMIT ?2`,
};

export const LIST_IDS = statements('id');
export const LIST_ROWS = statements(TRANSACTION_COLUMNS);

function statements(columns: string): Readonly<Record<ListSelection, string>> {
  const statement = (selection: ListSelection) => `SELECT ${columns} FROM ${PAGES[selection]}`;
  return { all: statement('all'), from: statement('from'), to: statement('to'), both: statement('both') };
}
