import type { OperationKind } from '../../../payments/ports/payment-history.js';
import { beginIncarnation, ON_KNOWN_DATABASE } from '../connection/database-identity-statements.js';
import type { Statement } from '../connection/postgres.js';
import { COLUMNS } from './payment-history-statements.js';

const microseconds = (time: string) => `floor(extract(epoch FROM ${time}) * 1000000)::float8`;
const timeOf = (us: string) => `('epoch'::timestamptz + ${us}::float8 * interval '1 microsecond')`;

/** The newest one; no row on a database that was not checked yet, because rows may be lost there. */
const INCARNATION = `
      SELECT incarnation FROM idempay.settlement_incarnations WHERE ${ON_KNOWN_DATABASE} ORDER BY number DESC LIMIT 1`;

/** The clock by which settlements get their times. */
export const CLOCK: Statement = {
  name: 'settlement_clock',
  text: `SELECT incarnation, ${microseconds('clock_timestamp()')} AS now_us FROM (${INCARNATION}) AS newest`,
};

/**
 * The transactions that may have a settlement to commit: those that hold the lock of a change on the table. Each statement gets this lock
 * before it executes, so before it reads the clock, and keeps it until its commit is visible. A prepared transaction gets another name when the
 * server restarts.
 */
export const WRITERS: Statement = {
  name: 'settlement_writers',
  text: `
    SELECT incarnation, ARRAY(
      SELECT DISTINCT virtualtransaction FROM pg_locks
      WHERE locktype = 'relation' AND relation = 'idempay.payments'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'RowExclusiveLock' AND granted) AS writers
    FROM (${INCARNATION}) AS newest`,
};

/** Refunds have an index of their own, which a CHECK makes equal to `refund_of IS NOT NULL`. */
const IS_OF_KIND: Record<OperationKind | 'all', { readonly read: string; readonly shown: string }> = {
  all: { read: '', shown: '' },
  payment: { read: '', shown: ' AND refund_of IS NULL' },
  refund: { read: ' AND refund_name IS NOT NULL', shown: '' },
};

/** Retention may have removed settlements before this time. NULL if it has removed nothing. */
const OLDEST_LEFT = `(SELECT removed_until + interval '1 microsecond' FROM idempay.payment_horizon)`;

/**
 * `$1` and `$2` are the place, `$3` is the bound, `$4` the client or NULL, `$5` the length of the page and `$6` the rows that it may read. The
 * rows and what is said of the feed are of one snapshot. The last row that could be read, and the one after it, are looked for only if the page is
 * short.
 */
function pageOf(kind: OperationKind | 'all'): Statement {
  const { read, shown } = IS_OF_KIND[kind];
  const rows = (columns: string, condition = '') => `
      SELECT ${columns} FROM idempay.payments
      WHERE (payments.settled_at, key) > (greatest(${timeOf('$1')}, ${OLDEST_LEFT}), $2::uuid)
        AND payments.settled_at < ${timeOf('$3')}${read}${condition}
      ORDER BY payments.settled_at, key`;
  return {
    name: `settlements_${kind}`,
    text: `
    WITH page AS MATERIALIZED (
      SELECT * FROM (${rows(`payments.settled_at AS place, ${COLUMNS}`)} LIMIT $6::integer) AS looked
      WHERE ($4::text IS NULL OR client = $4)${shown} ORDER BY place, key LIMIT $5::integer),
    two AS (${rows('payments.settled_at AS place, key', ' AND (SELECT count(*) FROM page) < $5::integer')} OFFSET $6::integer - 1 LIMIT 2),
    edge AS (
      SELECT place AS read_until, key AS last_key, lead(place) OVER in_order AS next_place, lead(key) OVER in_order AS next_key
      FROM two WINDOW in_order AS (ORDER BY place, key))
    SELECT page.*, ${microseconds('place')} AS place_us, newest.incarnation,
      (SELECT ${microseconds('removed_until')} FROM idempay.payment_horizon) AS removed_us,
      ${microseconds('read_until')} AS read_until_us, last_key, CASE WHEN next_place = read_until THEN next_key END AS next_key
    FROM (${INCARNATION}) AS newest LEFT JOIN edge ON next_key IS NOT NULL LEFT JOIN page ON true ORDER BY page.place, page.key`,
  };
}

export const PAGES = { all: pageOf('all'), payment: pageOf('payment'), refund: pageOf('refund') };

/** `$3`: the most rows. */
export const ENDS: Statement = {
  name: 'settlement_ends',
  text: `
    SELECT client, refund_of IS NOT NULL AS "isRefund" FROM idempay.payments
    WHERE settled_at >= ${timeOf('$1')} AND settled_at < ${timeOf('$2')} ORDER BY settled_at LIMIT $3::integer`,
};

/** The first beginning after this incarnation; of all, if the database does not know it. */
export const BEGAN_AFTER: Statement = {
  name: 'settlement_began_after',
  text: `
    SELECT ${microseconds('min(began_at)')} AS "beganUs" FROM idempay.settlement_incarnations
    WHERE number > coalesce((SELECT number FROM idempay.settlement_incarnations WHERE incarnation = $1), 0)`,
};

export const CLOCK_WENT_BACK: Statement = { name: 'settlement_clock_went_back', text: beginIncarnation('true') };

/** A start begins another incarnation if the clock is behind a time that was written before. */
export const CLOCK_IS_BEHIND: Statement = {
  name: 'settlement_clock_is_behind',
  text: beginIncarnation(`clock_timestamp() < greatest(
      (SELECT max(settled_at) FROM idempay.payments WHERE settled_at IS NOT NULL),
      (SELECT to_timestamp(max(clock_ms) / 1000.0) FROM idempay.retention_hours))`),
};
