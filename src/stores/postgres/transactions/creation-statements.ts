import { ON_KNOWN_DATABASE } from '../connection/database-identity-statements.js';
import type { Statement } from '../connection/postgres.js';
import { TRANSACTION_COLUMNS } from './transaction-statements.js';

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
