import type { TransactionFilter } from '../../../transactions/transaction.js';
import { accountsOf, type BySelection, bySelection, REMEMBERED_REMOVALS } from '../../shared/transaction-rows.js';
import { ON_KNOWN_DATABASE } from '../connection/database-identity-statements.js';
import type { Statement } from '../connection/postgres.js';
import { ENDS_IN_TIME } from '../connection/session.js';
import { inCacheEpoch } from './cache-epochs.js';

/** Counts leave the database as text, because as numbers large ones would not be exact; ids have 15 digits and are. */
export const TRANSACTION_COLUMNS = `
  id::float8 AS id, from_account, to_account, amount::text AS amount, status, version,
  floor(extract(epoch FROM created_at) * 1000)::float8 AS created_at`;

/**
 * In the order of the primary key. The indexes of accounts end with the id, and where statistics say that the table has one row,
 * a plan for `id = $1` reads one of those from end to end (docs/engineering/decisions/0038).
 */
export const FIND: Statement = {
  name: 'find_transaction',
  text: `
    SELECT ${TRANSACTION_COLUMNS} FROM idempay.transactions
    WHERE id >= $1 AND id <= $1 ORDER BY transactions.id LIMIT 1`,
};

/**
 * The whole decision in the statement that changes the row (rules T4, T7), no later than the deadline, and not on a database that
 * was not checked yet: its versions may be lower than those that are known of it.
 */
export const CHANGE_STATUS: Statement = {
  name: 'change_status',
  text: `
    UPDATE idempay.transactions SET status = $2, version = version + 1
    WHERE id = $1 AND status <> $2 AND status NOT IN ('FAILED', 'CANCELLED')
      AND ($3::text[] IS NULL OR status = ANY ($3))
      AND clock_timestamp() <= to_timestamp($4::float8 / 1000)
      AND ${ENDS_IN_TIME}
      AND ${inCacheEpoch('$5')}
      AND ${ON_KNOWN_DATABASE}
    RETURNING ${TRANSACTION_COLUMNS}`,
  commitOf: ([row]) => row && { id: row.id, version: row.version },
};

export const REMOVE: Statement = {
  name: 'remove_transaction',
  text: `
    WITH removed AS (
      DELETE FROM idempay.transactions
      WHERE id = $1 AND ($2::text[] IS NULL OR status = ANY ($2))
        AND clock_timestamp() <= to_timestamp($3::float8 / 1000)
        AND ${ENDS_IN_TIME}
        AND ${inCacheEpoch('$4')}
        AND ${ON_KNOWN_DATABASE}
      RETURNING id, from_account, to_account),
    list AS (
      UPDATE idempay.transaction_list
      SET version = version + 1, last_removal_version = version + 1, previous_removal_version = last_removal_version,
        removals = removals + 1
      WHERE EXISTS (SELECT 1 FROM removed)
      RETURNING version, previous_removal_version, removals)
    INSERT INTO idempay.transaction_removals (slot, version, previous_version, id, from_account, to_account)
    SELECT removals % ${REMEMBERED_REMOVALS}, version, previous_removal_version, id, from_account, to_account
    FROM list, removed
    ON CONFLICT (slot) DO UPDATE
    SET version = excluded.version, previous_version = excluded.previous_version, id = excluded.id,
      from_account = excluded.from_account, to_account = excluded.to_account
    RETURNING version`,
  commitOf: ([row]) => row && { listVersion: Number(row.version) },
};

export const LIST_VERSION: Statement = {
  name: 'list_version',
  text: 'SELECT version::float8 AS version, last_removal_version::float8 AS last_removal_version FROM idempay.transaction_list',
};

/** What is remembered of the removals after a version, the newest first. */
export const REMOVALS_SINCE: Statement = {
  name: 'removals_since',
  text: `
    SELECT version::float8 AS version, previous_version::float8 AS previous_version, id::float8 AS id, from_account, to_account
    FROM idempay.transaction_removals WHERE transaction_removals.version > $1
    ORDER BY transaction_removals.version DESC`,
};

const BOTH_ACCOUNTS = `(transactions.from_account || E'\\n' || transactions.to_account)`;

/**
 * A page of each list is one range of one index. It is written as a range in the complete order of that index, which no other index
 * has. With `from_account = $3 ORDER BY id` the planner assumes evenly spread accounts, so it may read the primary key and discard the
 * rows of other accounts; with two account columns it may sort the rows of another index. `transactions.id` and not `id`, which would
 * be the output column, and no index is ordered by that.
 * Parameters: the id before the page, the page's length, then the account or both in one text.
 */
const PAGES: BySelection<string> = {
  all: 'id > $1 ORDER BY transactions.id LIMIT $2',
  from: `
    (from_account, id) > ($3, $1) AND from_account <= $3
    ORDER BY transactions.from_account, transactions.id LIMIT $2`,
  to: `
    (to_account, id) > ($3, $1) AND to_account <= $3
    ORDER BY transactions.to_account, transactions.id LIMIT $2`,
  both: `
    (${BOTH_ACCOUNTS}, id) > ($3, $1) AND ${BOTH_ACCOUNTS} <= $3
    ORDER BY ${BOTH_ACCOUNTS}, transactions.id LIMIT $2`,
};

/** The same ranges from their other end. Parameters: the id after the page, the most rows, then the account or both in one text. */
const NEWEST_FIRST: BySelection<string> = {
  all: 'id < $1 ORDER BY transactions.id DESC LIMIT $2',
  from: `
    (from_account, id) < ($3, $1) AND from_account >= $3
    ORDER BY transactions.from_account DESC, transactions.id DESC LIMIT $2`,
  to: `
    (to_account, id) < ($3, $1) AND to_account >= $3
    ORDER BY transactions.to_account DESC, transactions.id DESC LIMIT $2`,
  both: `
    (${BOTH_ACCOUNTS}, id) < ($3, $1) AND ${BOTH_ACCOUNTS} >= $3
    ORDER BY ${BOTH_ACCOUNTS} DESC, transactions.id DESC LIMIT $2`,
};

export const NEWEST_ROWS = bySelection((selection) => ({
  name: `newest_rows_${selection}`,
  text: `SELECT ${TRANSACTION_COLUMNS} FROM idempay.transactions WHERE ${NEWEST_FIRST[selection]}`,
}));

/**
 * `seen` is materialized, so that no plan searches all rows for a rare status. The first column is the id where the reading ended,
 * null when no row is left below it. When no row has the status, one row has only this column. The last two parameters: the status
 * and the page's length.
 */
export const NEWEST_WITH_STATUS = bySelection((selection) => {
  const [status, length] = selection === 'all' ? ['$3', '$4'] : ['$4', '$5'];
  return {
    name: `newest_with_status_${selection}`,
    text: `
      WITH seen AS MATERIALIZED (SELECT * FROM idempay.transactions WHERE ${NEWEST_FIRST[selection]})
      SELECT read_to, found.*
      FROM (SELECT CASE WHEN count(*) = $2 THEN min(seen.id)::float8 END AS read_to FROM seen) AS extent
      LEFT JOIN (
        SELECT ${TRANSACTION_COLUMNS} FROM seen WHERE status = ${status} ORDER BY seen.id DESC LIMIT ${length}) AS found ON true
      ORDER BY found.id DESC`,
  };
});

/** What the statement of the selection takes after the page's length. */
export function accountParameters(filter: TransactionFilter): string[] {
  const accounts = accountsOf(filter);
  return accounts.length === 0 ? [] : [accounts.join('\n')];
}

export const LIST_IDS = listStatements('list_ids', 'id::float8 AS id');
export const LIST_ROWS = listStatements('list_rows', TRANSACTION_COLUMNS);

function listStatements(name: string, columns: string): BySelection<Statement> {
  return bySelection((selection) => ({
    name: `${name}_${selection}`,
    text: `SELECT ${columns} FROM idempay.transactions WHERE ${PAGES[selection]}`,
  }));
}
