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
 * True of a row that a transaction has changed or removed which was under way when it was read, also if that only waits for its standby.
 */
const IS_CHANGING = `xmax <> '0'::xid AND age(xmax) <= age(pg_snapshot_xmin(pg_current_snapshot())::xid)`;

/**
 * In the order of the primary key. The indexes of accounts end with the id, and if statistics say that the table has one row,
 * a plan for `id = $1` reads one of those from end to end (docs/engineering/decisions/0038).
 */
export const FIND: Statement = {
  name: 'find_transaction',
  text: `
    SELECT ${TRANSACTION_COLUMNS}, ${IS_CHANGING} AS "isChanging" FROM idempay.transactions
    WHERE id >= $1 AND id <= $1 ORDER BY transactions.id LIMIT 1`,
};

/**
 * The whole decision in the statement that changes the row (rules T4, T7), no later than the deadline. It changes nothing on a database
 * that was not checked yet, because its versions may be lower than the known ones.
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

/** The remembered removals after a version, the newest first. */
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
 * rows of other accounts. With two account columns it may sort the rows of another index. `transactions.id` and not `id`, which would
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

/** The parameters of the selection's statement after the page's length. */
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

const NOW = "date_trunc('milliseconds', clock_timestamp())";
const TIME_OF = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::float8`;

/**
 * The counter row is held until the commit, so the statement that gets the next ids commits later. On a database that was not
 * checked yet nothing is created: ids that were lost would be given again.
 */
export const CREATE: Statement = {
  name: 'create_transactions',
  text: `
    WITH counter AS (
      UPDATE idempay.transaction_list
      SET last_id = last_id + cardinality($1::text[]), version = version + cardinality($1::text[])
      WHERE ${ON_KNOWN_DATABASE}
      RETURNING last_id - cardinality($1::text[]) AS id_before, ${NOW} AS created_at)
    INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
    SELECT id_before + position, from_account, to_account, amount, status, 1, counter.created_at
    FROM counter, unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY
      AS created (from_account, to_account, amount, status, position)
    ORDER BY position
    RETURNING ${TRANSACTION_COLUMNS}`,
  commitOf: (rows) => (rows.length === 0 ? undefined : { id: Math.max(...rows.map(({ id }) => id)), version: 1 }),
};

/**
 * Several creates, each with its own key. $1 to $6 have a value for each create; $6 is the number of rows before its own rows.
 * $7 to $11 have a value for each row; $11 repeats the $6 of its create.
 *
 * The counter row is locked first, so such statements run one at a time, and each finds only committed keys. A key that is known and has
 * not expired gets no record; then its rows are left out, and so are their ids. A key must appear once in a statement.
 */
export const CREATE_ONCE: Statement = {
  name: 'create_transactions_once',
  text: `
    WITH list AS MATERIALIZED (
      SELECT last_id FROM idempay.transaction_list WHERE ${ON_KNOWN_DATABASE} FOR UPDATE),
    moment AS MATERIALIZED (SELECT last_id, ${NOW} AS now FROM list),
    record AS (
      INSERT INTO idempay.creation_keys AS known
        (client, endpoint, key, fingerprint, first_id, created_at, expires_at)
      SELECT client, endpoint, key, fingerprint, last_id + 1 + rows_before, now, now + ttl_ms * interval '1 millisecond'
      FROM moment,
        unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[], $6::integer[])
        AS wanted (client, endpoint, key, fingerprint, ttl_ms, rows_before)
      ON CONFLICT (client, endpoint, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, first_id = excluded.first_id, created_at = excluded.created_at,
        expires_at = excluded.expires_at
      WHERE known.expires_at <= excluded.created_at
      RETURNING first_id, created_at),
    counter AS (
      UPDATE idempay.transaction_list
      SET last_id = last_id + cardinality($7::text[]), version = version + cardinality($7::text[])
      WHERE EXISTS (SELECT FROM record)),
    created AS (
      INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
      SELECT last_id + position, from_account, to_account, amount, status, 1, now
      FROM moment, record,
        unnest($7::text[], $8::text[], $9::bigint[], $10::text[], $11::integer[]) WITH ORDINALITY
        AS wanted (from_account, to_account, amount, status, rows_before, position)
      WHERE record.first_id = last_id + 1 + wanted.rows_before
      ORDER BY position)
    SELECT (first_id - last_id - 1)::integer AS "rowsBefore", first_id::float8 AS "firstId",
      ${TIME_OF('created_at')} AS "createdAt"
    FROM moment, record`,
  commitOf: ([row]) => row && { id: row.firstId, version: 1 },
};

/** A key that has not expired, by the database's clock. */
export const FIND_CREATION: Statement = {
  name: 'find_creation',
  text: `
    SELECT fingerprint, first_id::float8 AS "firstId", ${TIME_OF('created_at')} AS "createdAt"
    FROM idempay.creation_keys
    WHERE client = $1 AND endpoint = $2 AND key = $3 AND expires_at > clock_timestamp()`,
};

/** The keys that expired first; with `now()`, because only a stable function can use the index. Concurrent sweeps remove different rows. */
export const SWEEP_CREATION_KEYS: Statement = {
  name: 'sweep_creation_keys',
  text: `
    DELETE FROM idempay.creation_keys WHERE (client, endpoint, key) IN (
      SELECT client, endpoint, key FROM idempay.creation_keys
      WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING 1 AS removed`,
};
