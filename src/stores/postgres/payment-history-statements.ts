import type { NewestSource } from '../shared/newest-payments.js';
import { GENERATION } from './database-identity-statements.js';
import type { Statement } from './postgres.js';

const COLUMNS = `
  key, state, transaction_id, amount::text AS amount, currency, client, processor, epoch, reason, resolution,
  floor(extract(epoch FROM claimed_at) * 1000)::float8 AS claimed_at,
  floor(extract(epoch FROM settled_at) * 1000)::float8 AS settled_at,
  floor(extract(epoch FROM settled_at) * 1000000)::float8 AS settled_at_us`;

export const FIND: Statement = {
  name: 'find_record',
  text: `SELECT ${COLUMNS} FROM idempay.payments WHERE key = $1`,
};

/** What only the timeline of a payment shows. */
export const FIND_LIFE: Statement = {
  name: 'find_life',
  text: `
    SELECT ${COLUMNS}, owner, coalesce(unsent_epoch = epoch AND generation = ${GENERATION}, false) AS unsent, events::text AS events,
      floor(extract(epoch FROM lease_until) * 1000)::float8 AS lease_until,
      floor(extract(epoch FROM recover_at) * 1000)::float8 AS recover_at,
      floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at,
      floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now
    FROM idempay.payments WHERE key = $1`,
};

const RANGE = 'key >= $1 AND key < $2';
/**
 * Conditions that must not use an index, also not in a custom plan (hence the `|| ''`). They filter a bounded number of rows
 * (see `newest-payments.ts`).
 */
const FILTERS = `($4::text IS NULL OR state = $4) AND ($5::text IS NULL OR processor = $5)
        AND ($6::text IS NULL OR (transaction_id || '' >= $6 AND transaction_id || '' <= $7)) AND ($8::text IS NULL OR client = $8)`;
/** Each is read by an index of its own, in the order of the keys, so that a plan that is kept can use a partial one. */
const ROWS_OF = {
  any: RANGE,
  DECLINED: `${RANGE} AND state = 'DECLINED'`,
  PROCESSING: `${RANGE} AND state = 'PROCESSING'`,
  ofClient: `${RANGE} AND client = $8`,
} as const;

export const NEWEST: Record<NewestSource, Statement> = {
  any: newestOf('newest_payments', ROWS_OF.any),
  DECLINED: newestOf('newest_declined', ROWS_OF.DECLINED),
  ofClient: newestOf('newest_of_client', ROWS_OF.ofClient),
  PROCESSING: newestOf('newest_processing', ROWS_OF.PROCESSING),
};

/** Payments within a short range of transaction ids. */
export const NAMED = sortedOf('named_payments', 'transaction_id >= $6 AND transaction_id <= $7');

export const COUNT_NAMED: Statement = {
  name: 'count_named',
  text: `
    SELECT count(*)::float8 AS named FROM (
      SELECT FROM idempay.payments WHERE transaction_id >= $1 AND transaction_id <= $2
      ORDER BY transaction_id LIMIT $3) AS first_ones`,
};

/** The `$3`th newest key of each: the last one that a page may read. */
export const NTH_KEY: Record<NewestSource, Statement> = {
  any: nthKeyOf('nth_key', ROWS_OF.any),
  DECLINED: nthKeyOf('nth_declined_key', ROWS_OF.DECLINED),
  PROCESSING: nthKeyOf('nth_processing_key', ROWS_OF.PROCESSING),
  ofClient: nthKeyOf('nth_key_of_client', `${RANGE} AND client = $4`),
};

function newestOf(name: string, rows: string): Statement {
  return {
    name,
    text: `SELECT ${COLUMNS} FROM idempay.payments WHERE ${rows} AND ${FILTERS} ORDER BY key DESC LIMIT $3`,
  };
}

function sortedOf(name: string, rows: string): Statement {
  return {
    name,
    text: `
      WITH selected AS MATERIALIZED (SELECT * FROM idempay.payments WHERE ${rows})
      SELECT ${COLUMNS} FROM selected WHERE ${RANGE} AND ${FILTERS} ORDER BY key DESC LIMIT $3`,
  };
}

function nthKeyOf(name: string, rows: string): Statement {
  return { name, text: `SELECT key FROM idempay.payments WHERE ${rows} ORDER BY key DESC OFFSET $3 - 1 LIMIT 1` };
}

/** By the table's `settled_at` and not the output's, a float8 that no index is ordered by; to the microsecond. */
const SETTLED_PAGE = `
    FROM idempay.payments
    WHERE (payments.settled_at, key) > ('epoch'::timestamptz + $1::float8 * interval '1 microsecond', $2)
      AND payments.settled_at >= 'epoch'::timestamptz + $3::float8 * interval '1 millisecond'
      AND payments.settled_at < 'epoch'::timestamptz + $4::float8 * interval '1 millisecond'
    ORDER BY payments.settled_at, key LIMIT $5`;

export const SETTLED: Statement = { name: 'settled_payments', text: `SELECT ${COLUMNS} ${SETTLED_PAGE}` };

/** How many rows one page has, and its last row. */
export const COUNT_SETTLED: Statement = {
  name: 'count_settled',
  text: `
    WITH page AS MATERIALIZED (SELECT key, payments.settled_at, state ${SETTLED_PAGE}),
      last AS (SELECT key, settled_at FROM page ORDER BY settled_at DESC, key DESC LIMIT 1)
    SELECT count(*) FILTER (WHERE state = 'COMPLETED')::float8 AS completed,
      count(*) FILTER (WHERE state = 'DECLINED')::float8 AS declined,
      (SELECT key FROM last) AS key,
      (SELECT floor(extract(epoch FROM settled_at) * 1000000)::float8 FROM last) AS last_settled_at
    FROM page`,
};
