import { MOST_REFUNDS } from '../../../payments/ports/payment-history.js';
import type { NewestSource } from '../../shared/payment-history.js';

export const COLUMNS =
  'key, state, transaction_id, amount, currency, client, processor, epoch, claimed_at, settled_at, reason, resolution, reference, attempt, content, pending_until, ending, processor_id, refund_of, refund_name, refund_reason, refund_charge_id, refunded';

export const FIND = `SELECT ${COLUMNS} FROM payments WHERE key = ?`;

export const COUNT_PAID = `
  SELECT processor, count(*) AS payments, count(*) FILTER (WHERE state = 'COMPLETED' AND refund_of IS NULL) AS paid
  FROM (SELECT processor, state, refund_of FROM payments ORDER BY transaction_id LIMIT ?) GROUP BY processor`;

/** A payment with the columns that only its timeline shows. */
export const FIND_LIFE = `
  SELECT ${COLUMNS}, owner, unsent_epoch AS unsent_of_now, claimed_at_wall, lease_until, recover_at, expires_at, events, ?2 AS now
  FROM payments WHERE key = ?1`;

const RANGE = 'transaction_id >= ?1 AND transaction_id < ?2';
/** Conditions that are not meant to use an index: they filter a bounded number of rows (see `shared/payment-history.ts`). */
const FILTERS = `(?4 IS NULL OR state = ?4 OR (?4 = 'PENDING' AND state = 'PROCESSING' AND pending_until IS NOT NULL)) AND (?5 IS NULL OR processor = ?5)
    AND (?6 IS NULL OR (key >= ?6 AND key <= ?7)) AND (?8 IS NULL OR client = ?8)
    AND (?9 IS NULL OR instr(content, ?9) > 0) AND (?10 IS NULL OR (refund_of IS NULL) = (?10 = 'payment'))`;
/** The state is a constant and not a parameter, so that its partial index is seen to hold the rows. */
const ROWS_OF = {
  any: RANGE,
  DECLINED: `state = 'DECLINED' AND ${RANGE}`,
  PROCESSING: `state = 'PROCESSING' AND pending_until IS NULL AND ${RANGE}`,
  PENDING: `state = 'PROCESSING' AND pending_until IS NOT NULL AND ${RANGE}`,
  ofClient: `client = ?8 AND ${RANGE}`,
  refunds: `refund_of IS NOT NULL AND ${RANGE}`,
} as const;

export const NEWEST: Record<NewestSource, string> = {
  any: newestOf(ROWS_OF.any),
  DECLINED: newestOf(ROWS_OF.DECLINED),
  ofClient: newestOf(ROWS_OF.ofClient),
  PROCESSING: newestOf(ROWS_OF.PROCESSING, ROWS_OF.PENDING),
  PENDING: newestOf(ROWS_OF.PENDING),
  refunds: newestOf(ROWS_OF.refunds),
};

/** Payments within a short range of keys. */
export const OF_KEYS = sortedOf('key >= ?6 AND key <= ?7');

export const OF_REFERENCE = sortedOf('reference = ?11');

const refundsOfReference = (reference: string) =>
  `refund_of IN (SELECT key FROM payments WHERE reference = ${reference} AND refunded IS NOT NULL) AND ${RANGE}`;
export const OF_REFERENCE_WITH_REFUNDS = sortedOf('reference = ?11', refundsOfReference('?11'));
export const NTH_REFUND_ID_OF_REFERENCE = nthIdOf(refundsOfReference('?4'));

export const COUNT_KEYS = `
  SELECT count(*) AS keys FROM (SELECT 1 FROM payments WHERE key >= ?1 AND key <= ?2 LIMIT ?3)`;

/** The nth newest id of each: the last one that a page may read. */
export const NTH_ID: Record<NewestSource, string> = {
  any: nthIdOf(ROWS_OF.any),
  DECLINED: nthIdOf(ROWS_OF.DECLINED),
  PROCESSING: nthIdOf(ROWS_OF.PROCESSING, ROWS_OF.PENDING),
  PENDING: nthIdOf(ROWS_OF.PENDING),
  ofClient: nthIdOf(`client = ?4 AND ${RANGE}`),
  refunds: nthIdOf(ROWS_OF.refunds),
};

/** The attempt at a reference that was claimed last. */
export const NEWEST_ATTEMPT = `
  SELECT ${COLUMNS} FROM payments WHERE reference = ? AND client IS ? ORDER BY attempt DESC LIMIT 1`;

/** The newest refunds of a payment. */
export const REFUNDS_OF = `
  SELECT ${COLUMNS} FROM payments WHERE refund_of = ? ORDER BY transaction_id DESC LIMIT ${MOST_REFUNDS}`;

/** Payments under way are in two indexes, which are merged: those that are pending are apart. */
function newestOf(...ranges: readonly string[]): string {
  const reads = ranges.map((rows) => `SELECT ${COLUMNS} FROM payments WHERE ${rows} AND ${FILTERS}`);
  return `${reads.join(' UNION ALL ')} ORDER BY transaction_id DESC LIMIT ?3`;
}

function sortedOf(...ranges: readonly string[]): string {
  const reads = ranges.map((rows) => `SELECT ${COLUMNS} FROM payments WHERE ${rows}`);
  return `
  WITH selected AS MATERIALIZED (${reads.join(' UNION ALL ')})
  SELECT * FROM selected WHERE ${RANGE} AND ${FILTERS} ORDER BY transaction_id DESC LIMIT ?3`;
}

function nthIdOf(...ranges: readonly string[]): string {
  const reads = ranges.map((rows) => `SELECT transaction_id FROM payments WHERE ${rows}`);
  return `${reads.join(' UNION ALL ')} ORDER BY transaction_id DESC LIMIT 1 OFFSET ?3 - 1`;
}

const settledPage = (rows: string) => `
  FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at >= ? AND settled_at < ?${rows}
  ORDER BY settled_at, key LIMIT ?`;

/** A page of rows of both kinds, or of refunds alone, which have an index of their own. */
const BOTH_KINDS = settledPage('');
const REFUNDS = settledPage(' AND refund_of IS NOT NULL');

export const SETTLED = `SELECT ${COLUMNS} ${BOTH_KINDS}`;
export const SETTLED_REFUNDS = `SELECT ${COLUMNS} ${REFUNDS}`;

export const COUNT_SETTLED = countOf(BOTH_KINDS);
export const COUNT_SETTLED_REFUNDS = countOf(REFUNDS);

/** Counts the rows of one page, and gives its last row; `?6`: refunds are counted too. The state is in the table itself, found by the key. */
function countOf(page: string): string {
  const isCounted = '(refund_of IS NULL OR ?6)';
  return `
  WITH page AS MATERIALIZED (SELECT key, settled_at, state, refund_of ${page}),
    last AS (SELECT key, settled_at FROM page ORDER BY settled_at DESC, key DESC LIMIT 1)
  SELECT count(*) AS counted, count(*) FILTER (WHERE state = 'COMPLETED' AND ${isCounted}) AS completed,
    count(*) FILTER (WHERE state = 'DECLINED' AND ${isCounted}) AS declined,
    (SELECT key FROM last) AS key, (SELECT settled_at FROM last) AS last_settled_at
  FROM page`;
}
