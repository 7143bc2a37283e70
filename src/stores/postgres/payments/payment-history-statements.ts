import type { NewestSource } from '../../shared/payment-history.js';
import type { Statement } from '../connection/postgres.js';
import { UNSENT_OF_NOW } from './ledger-statements.js';

export const COLUMNS = `
  key, state, transaction_id, amount::text AS amount, currency, client, processor, epoch, reason, resolution, reference, attempt, content, ending, processor_id,
  refund_of, refund_name, refund_reason, refund_charge_id, refunded::float8 AS refunded,
  floor(extract(epoch FROM claimed_at) * 1000)::float8 AS claimed_at,
  floor(extract(epoch FROM settled_at) * 1000)::float8 AS settled_at,
  floor(extract(epoch FROM pending_until) * 1000)::float8 AS pending_until,
  floor(extract(epoch FROM settled_at) * 1000000)::float8 AS settled_at_us`;

export const FIND: Statement = {
  name: 'find_record',
  text: `SELECT ${COLUMNS} FROM idempay.payments WHERE key = $1`,
};

/** `$1`: how many of the oldest payments are looked at. */
export const COUNT_PAID: Statement = {
  name: 'count_paid',
  text: `
    SELECT processor, count(*)::float8 AS payments, (count(*) FILTER (WHERE state = 'COMPLETED' AND refund_of IS NULL))::float8 AS paid
    FROM (SELECT processor, state, refund_of FROM idempay.payments ORDER BY transaction_id LIMIT $1) AS oldest GROUP BY processor`,
};

/** A payment with the columns that only its timeline shows. */
export const FIND_LIFE: Statement = {
  name: 'find_life',
  text: `
    SELECT ${COLUMNS}, owner, ${UNSENT_OF_NOW} AS unsent_of_now, events::text AS events,
      floor(extract(epoch FROM lease_until) * 1000)::float8 AS lease_until,
      floor(extract(epoch FROM recover_at) * 1000)::float8 AS recover_at,
      floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at,
      floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now
    FROM idempay.payments WHERE key = $1`,
};

const RANGE = 'transaction_id >= $1 AND transaction_id < $2';
/**
 * Conditions that must not use an index, also not in a custom plan (hence `key::text`). They filter a bounded number of rows
 * (see `shared/payment-history.ts`).
 */
const FILTERS = `($4::text IS NULL OR state = $4 OR ($4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL))
        AND ($5::text IS NULL OR processor = $5)
        AND ($6::uuid IS NULL OR (key::text >= $6::uuid::text AND key::text <= $7::uuid::text)) AND ($8::text IS NULL OR client = $8)
        AND ($9::text IS NULL OR strpos(content, $9) > 0)
        AND ($10::text IS NULL OR (refund_of IS NULL) = ($10 = 'payment'))`;
/**
 * Each is read by an index of its own, in the order of the ids, so that a plan that is kept can use a partial one. A CHECK makes the words for
 * refunds equal to `refund_of IS NOT NULL`: as no other statement has them, none is planned by this index from when there were few refunds,
 * and later reads all of them.
 */
const ROWS_OF = {
  any: RANGE,
  DECLINED: `${RANGE} AND state = 'DECLINED'`,
  PROCESSING: `${RANGE} AND state = 'PROCESSING' AND pending_until IS NULL`,
  PENDING: `${RANGE} AND state = 'PROCESSING' AND pending_until IS NOT NULL`,
  ofClient: `${RANGE} AND client = $8`,
  refunds: `${RANGE} AND refund_units IS NOT NULL`,
} as const;

export const NEWEST: Record<NewestSource, Statement> = {
  any: newestOf('newest_payments', ROWS_OF.any),
  DECLINED: newestOf('newest_declined', ROWS_OF.DECLINED),
  ofClient: newestOf('newest_of_client', ROWS_OF.ofClient),
  PROCESSING: newestOf('newest_processing', ROWS_OF.PROCESSING, ROWS_OF.PENDING),
  PENDING: newestOf('newest_pending', ROWS_OF.PENDING),
  refunds: newestOf('newest_refunds', ROWS_OF.refunds),
};

/** Payments within a short range of keys. */
export const OF_KEYS = sortedOf('payments_of_keys', 'key >= $6 AND key <= $7');

export const OF_REFERENCE = sortedOf('payments_of_reference', 'reference = $11');

const refundsOfReference = (reference: string) =>
  `refund_of IN (SELECT key FROM idempay.payments WHERE reference = ${reference} AND refunded IS NOT NULL) AND ${RANGE}`;
export const OF_REFERENCE_WITH_REFUNDS = sortedOf(
  'payments_of_reference_with_refunds',
  'reference = $11',
  refundsOfReference('$11'),
);
export const NTH_REFUND_ID_OF_REFERENCE = nthIdOf('nth_refund_id_of_reference', refundsOfReference('$4'));

export const COUNT_KEYS: Statement = {
  name: 'count_keys',
  text: `
    SELECT count(*)::float8 AS keys FROM (
      SELECT FROM idempay.payments WHERE key >= $1 AND key <= $2 ORDER BY key LIMIT $3) AS first_ones`,
};

/** The `$3`th newest id of each: the last one that a page may read. */
export const NTH_ID: Record<NewestSource, Statement> = {
  any: nthIdOf('nth_id', ROWS_OF.any),
  DECLINED: nthIdOf('nth_declined_id', ROWS_OF.DECLINED),
  PROCESSING: nthIdOf('nth_processing_id', ROWS_OF.PROCESSING, ROWS_OF.PENDING),
  PENDING: nthIdOf('nth_pending_id', ROWS_OF.PENDING),
  ofClient: nthIdOf('nth_id_of_client', `${RANGE} AND client = $4`),
  refunds: nthIdOf('nth_refund_id', ROWS_OF.refunds),
};

/** The attempt at a reference that was claimed last. */
export const NEWEST_ATTEMPT: Statement = {
  name: 'newest_attempt',
  text: `
    SELECT ${COLUMNS} FROM idempay.payments
    WHERE reference = $1 AND client IS NOT DISTINCT FROM $2 ORDER BY attempt DESC LIMIT 1`,
};

/** `$2`: how many of the newest. */
export const REFUNDS_OF: Statement = {
  name: 'refunds_of',
  text: `
    SELECT ${COLUMNS} FROM (
      SELECT * FROM idempay.payments WHERE refund_of = $1 ORDER BY transaction_id DESC LIMIT $2) AS newest
    ORDER BY transaction_id`,
};

function newestOf(name: string, ...ranges: readonly string[]): Statement {
  const reads = ranges.map((rows) => `SELECT ${COLUMNS} FROM idempay.payments WHERE ${rows} AND ${FILTERS}`);
  return { name, text: `${newestFirst(reads)} LIMIT $3` };
}

/**
 * Payments under way are in two indexes, because those that are pending are apart. Each is read in its own order, and no further than the
 * page: a plan that was kept from when few were pending would otherwise read and sort all of them.
 */
function newestFirst(reads: readonly string[]): string {
  const inOrder = 'ORDER BY transaction_id DESC';
  if (reads.length === 1) return `${reads[0]} ${inOrder}`;
  return `${reads.map((read) => `(${read} ${inOrder} LIMIT $3)`).join('\n      UNION ALL ')} ${inOrder}`;
}

function sortedOf(name: string, ...ranges: readonly string[]): Statement {
  const reads = ranges.map((rows) => `SELECT * FROM idempay.payments WHERE ${rows}`);
  return {
    name,
    text: `
      WITH selected AS MATERIALIZED (${reads.join(' UNION ALL ')})
      SELECT ${COLUMNS} FROM selected WHERE ${RANGE} AND ${FILTERS} ORDER BY transaction_id DESC LIMIT $3`,
  };
}

function nthIdOf(name: string, ...ranges: readonly string[]): Statement {
  const reads = ranges.map((rows) => `SELECT transaction_id FROM idempay.payments WHERE ${rows}`);
  return { name, text: `${newestFirst(reads)} OFFSET $3 - 1 LIMIT 1` };
}

/** By the table's `settled_at` and not the output's, a float8 that no index is ordered by; to the microsecond. */
const settledPage = (rows: string) => `
    FROM idempay.payments
    WHERE (payments.settled_at, key) > ('epoch'::timestamptz + $1::float8 * interval '1 microsecond', $2)
      AND payments.settled_at >= 'epoch'::timestamptz + $3::float8 * interval '1 millisecond'
      AND payments.settled_at < 'epoch'::timestamptz + $4::float8 * interval '1 millisecond'${rows}
    ORDER BY payments.settled_at, key LIMIT $5`;

/** A page of rows of both kinds, or of refunds alone, in words of their own as above. */
const BOTH_KINDS = settledPage('');
const REFUNDS = settledPage(' AND refund_name IS NOT NULL');

export const SETTLED: Statement = { name: 'settled_payments', text: `SELECT ${COLUMNS} ${BOTH_KINDS}` };
export const SETTLED_REFUNDS: Statement = { name: 'settled_refunds', text: `SELECT ${COLUMNS} ${REFUNDS}` };

/** `$6`: refunds are counted too. */
export const COUNT_SETTLED: Statement = { name: 'count_settled', text: countOf(BOTH_KINDS) };
export const COUNT_SETTLED_REFUNDS: Statement = { name: 'count_settled_refunds', text: countOf(REFUNDS) };

/** Counts the rows of one page, and gives its last row. */
function countOf(page: string): string {
  const isCounted = '(refund_of IS NULL OR $6::boolean)';
  return `
    WITH page AS MATERIALIZED (SELECT key, payments.settled_at, state, refund_of ${page}),
      last AS (SELECT key, settled_at FROM page ORDER BY settled_at DESC, key DESC LIMIT 1)
    SELECT count(*)::float8 AS counted, count(*) FILTER (WHERE state = 'COMPLETED' AND ${isCounted})::float8 AS completed,
      count(*) FILTER (WHERE state = 'DECLINED' AND ${isCounted})::float8 AS declined,
      (SELECT key FROM last) AS key,
      (SELECT floor(extract(epoch FROM settled_at) * 1000000)::float8 FROM last) AS last_settled_at
    FROM page`;
}
