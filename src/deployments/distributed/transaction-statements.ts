import { REMEMBERED_REMOVALS } from '../transaction-removals.js';
import type { Statement } from './postgres.js';
import { TRANSACTION_COLUMNS } from './transaction-columns.js';

/** The counter row is held until the commit, so whoever gets the next ids commits later. */
export const CREATE: Statement = {
  name: 'create_transactions',
  text: `
    WITH counter AS (
      UPDATE idempay.transaction_list
      SET last_id = last_id + cardinality($1::text[]), version = version + cardinality($1::text[])
      RETURNING last_id - cardinality($1::text[]) AS id_before)
    INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
    SELECT id_before + position, from_account, to_account, amount, status, 1, date_trunc('milliseconds', clock_timestamp())
    FROM counter, unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY
      AS created (from_account, to_account, amount, status, position)
    ORDER BY position
    RETURNING ${TRANSACTION_COLUMNS}`,
};

export const FIND: Statement = {
  name: 'find_transaction',
  text: `SELECT ${TRANSACTION_COLUMNS} FROM idempay.transactions WHERE id = $1`,
};

/** The whole decision in the statement that changes the row (decisions T4, T7), and no later than the deadline. */
export const CHANGE_STATUS: Statement = {
  name: 'change_status',
  text: `
    UPDATE idempay.transactions SET status = $2, version = version + 1
    WHERE id = $1 AND status <> $2 AND status NOT IN ('FAILED', 'CANCELLED')
      AND ($3::text[] IS NULL OR status = ANY ($3))
      AND clock_timestamp() <= to_timestamp($4::float8 / 1000)
    RETURNING ${TRANSACTION_COLUMNS}`,
};

export const REMOVE: Statement = {
  name: 'remove_transaction',
  text: `
    WITH removed AS (
      DELETE FROM idempay.transactions
      WHERE id = $1 AND ($2::text[] IS NULL OR status = ANY ($2))
        AND clock_timestamp() <= to_timestamp($3::float8 / 1000)
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

/** `transactions.id` and not `id`: that would be the output column, which no index is ordered by. */
const FILTER = `id > $1 AND ($2 = '' OR from_account = $2) AND ($3 = '' OR to_account = $3) ORDER BY transactions.id LIMIT $4`;

export const LIST_IDS: Statement = {
  name: 'list_ids',
  text: `SELECT id::float8 AS id FROM idempay.transactions WHERE ${FILTER}`,
};

export const LIST_ROWS: Statement = {
  name: 'list_rows',
  text: `SELECT ${TRANSACTION_COLUMNS} FROM idempay.transactions WHERE ${FILTER}`,
};
