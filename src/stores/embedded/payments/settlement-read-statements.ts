import type { OperationKind } from '../../../payments/ports/payment-history.js';
import { COLUMNS } from './payment-history-statements.js';

const INCARNATION = 'SELECT incarnation FROM settlement_incarnations ORDER BY number DESC LIMIT 1';

/**
 * The time of the last commit. Two commits may have the same one, so a settlement of this very time may still be committed. `isHeld`: there is
 * one already, which the next commit with a later time shows.
 */
export const BOUND = `
  SELECT (${INCARNATION}) AS incarnation, clock_ms * 1000 AS at_us,
    EXISTS (SELECT 1 FROM payments WHERE settled_at >= clock_ms) AS isHeld
  FROM last_commit`;

const IS_OF_KIND: Record<OperationKind | 'all', string> = {
  all: '',
  payment: ' AND refund_of IS NULL',
  refund: ' AND refund_of IS NOT NULL',
};

/** Retention may have removed settlements before this time. */
const OLDEST_LEFT = 'ifnull((SELECT removed_until + 0.001 FROM payment_horizon), 0)';

/**
 * `?1` and `?2` are the place, `?3` is the bound, `?4` the client or NULL, `?5` the length of the page and `?6` the rows that it may read. The
 * last row that could be read, and the one after it, are looked for only if the page is short; as a condition SQLite would ask this of each row
 * that is left. Places are in microseconds; a fraction is between two times.
 */
function pageOf(kind: OperationKind | 'all'): string {
  // Refunds alone are read by an index of their own.
  const read = kind === 'refund' ? IS_OF_KIND.refund : '';
  const rows = (columns: string) => `
    SELECT ${columns} FROM payments
    WHERE (settled_at, key) > (max(?1 / 1000.0, ${OLDEST_LEFT}), ?2) AND settled_at < ?3 / 1000.0${read} ORDER BY settled_at, key`;
  return `
  WITH page AS MATERIALIZED (
    SELECT * FROM (${rows(COLUMNS)} LIMIT ?6)
    WHERE (?4 IS NULL OR client = ?4)${IS_OF_KIND[kind]} ORDER BY settled_at, key LIMIT ?5),
  two AS (${rows('settled_at, key')} LIMIT CASE WHEN (SELECT count(*) FROM page) < ?5 THEN 2 ELSE 0 END OFFSET ?6 - 1),
  edge AS (
    SELECT settled_at AS read_until, key AS last_key, lead(settled_at) OVER in_order AS next_time, lead(key) OVER in_order AS next_key
    FROM two WINDOW in_order AS (ORDER BY settled_at, key))
  SELECT page.*, page.settled_at * 1000 AS place_us, newest.incarnation,
    (SELECT removed_until * 1000 FROM payment_horizon) AS removed_us,
    read_until * 1000 AS read_until_us, last_key, CASE WHEN next_time = read_until THEN next_key END AS next_key
  FROM (${INCARNATION}) AS newest LEFT JOIN edge ON next_key IS NOT NULL LEFT JOIN page ON true ORDER BY page.settled_at, page.key`;
}

export const PAGES = { all: pageOf('all'), payment: pageOf('payment'), refund: pageOf('refund') };

export const ENDS = `
  SELECT client, refund_of IS NOT NULL AS isRefund FROM payments
  WHERE settled_at >= ?1 / 1000.0 AND settled_at < ?2 / 1000.0 ORDER BY settled_at LIMIT ?3`;

/** The first beginning after this incarnation; of all, if the database does not know it. */
export const BEGAN_AFTER = `
  SELECT min(began_at) * 1000 AS beganUs FROM settlement_incarnations
  WHERE number > ifnull((SELECT number FROM settlement_incarnations WHERE incarnation = ?), 0)`;
