import { bySelection, type BySelection as ThingsBySelection } from '../../shared/transaction-rows.js';

/** The amount is read as text: as a number, a large count of ten-thousandths would not be exact. */
export const TRANSACTION_COLUMNS =
  'id, from_account, to_account, CAST(amount AS TEXT) AS amount, status, version, created_at';

type BySelection = ThingsBySelection<string>;

/**
 * A page of each list is one range of one index, which is named: nothing that SQLite may find out about the data can choose
 * another one. Parameters: the id before the page, the page's length, then the accounts. Every index of SQLite ends with the row's id.
 */
const PAGES: BySelection = {
  all: 'transactions NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT ?2',
  from: `transactions INDEXED BY transactions_by_from_account
    WHERE from_account = ?3 AND id > ?1 ORDER BY id LIMIT ?2`,
  to: `transactions INDEXED BY transactions_by_to_account
    WHERE to_account = ?3 AND id > ?1 ORDER BY id LIMIT ?2`,
  both: `transactions INDEXED BY transactions_by_both_accounts
    WHERE from_account = ?3 AND to_account = ?4 AND id > ?1 ORDER BY id LIMIT ?2`,
};

/** The same ranges from their other end. Parameters: the id after the page, the page's length, then the accounts. */
const NEWEST_PAGES: BySelection = {
  all: 'transactions NOT INDEXED WHERE id < ?1 ORDER BY id DESC LIMIT ?2',
  from: `transactions INDEXED BY transactions_by_from_account
    WHERE from_account = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2`,
  to: `transactions INDEXED BY transactions_by_to_account
    WHERE to_account = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2`,
  both: `transactions INDEXED BY transactions_by_both_accounts
    WHERE from_account = ?3 AND to_account = ?4 AND id < ?1 ORDER BY id DESC LIMIT ?2`,
};

/** The rows of a page that have a status. Parameters: the id after the page, its lowest id, the status, then the accounts. */
const WITH_STATUS: BySelection = {
  all: 'transactions NOT INDEXED WHERE id < ?1 AND id >= ?2 AND status = ?3 ORDER BY id DESC',
  from: `transactions INDEXED BY transactions_by_from_account
    WHERE from_account = ?4 AND id < ?1 AND id >= ?2 AND status = ?3 ORDER BY id DESC`,
  to: `transactions INDEXED BY transactions_by_to_account
    WHERE to_account = ?4 AND id < ?1 AND id >= ?2 AND status = ?3 ORDER BY id DESC`,
  both: `transactions INDEXED BY transactions_by_both_accounts
    WHERE from_account = ?4 AND to_account = ?5 AND id < ?1 AND id >= ?2 AND status = ?3 ORDER BY id DESC`,
};

export const LIST_IDS = bySelection((selection) => `SELECT id FROM ${PAGES[selection]}`);
export const LIST_ROWS = bySelection((selection) => `SELECT ${TRANSACTION_COLUMNS} FROM ${PAGES[selection]}`);
export const NEWEST_ROWS = bySelection((selection) => `SELECT ${TRANSACTION_COLUMNS} FROM ${NEWEST_PAGES[selection]}`);
/** How far a page of the newest goes. */
export const NEWEST_EXTENT = bySelection(
  (selection) => `SELECT count(*) AS length, min(id) AS lowest FROM (SELECT id FROM ${NEWEST_PAGES[selection]})`,
);
export const ROWS_WITH_STATUS = bySelection(
  (selection) => `SELECT ${TRANSACTION_COLUMNS} FROM ${WITH_STATUS[selection]}`,
);
