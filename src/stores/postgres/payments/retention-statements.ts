import { HOUR_MS } from '../../shared/retention-hour.js';
import type { Statement } from '../connection/postgres.js';

/** The lowest UUIDv7 of a moment: 48 bits of time in milliseconds since the epoch, then the version and the variant alone. */
export const lowestKeyAt = (ms: string) => `(lpad(to_hex(${ms}), 12, '0') || '70008000000000000000')::uuid`;

/** When a key (a UUIDv7) was generated: milliseconds since the epoch. */
export const timeOfMs = (key: string) => `('x0000' || left(replace(${key}::text, '-', ''), 12))::bit(64)::bigint`;

/** The last hour of at least this age, which counts the time that an operator confirmed, and the lowest key time after it. */
export const OLD_HOUR: Statement = {
  name: 'old_hour',
  text: `
    SELECT hour, keys_from_ms::float8 AS "keysFromMs" FROM (
      SELECT hour,
        max(until_ms) OVER () - until_ms + coalesce(sum(unseen_ms) FILTER (WHERE confirmed) OVER younger, 0) AS age_ms,
        min(lowest_key_ms) OVER younger AS keys_from_ms
      FROM idempay.retention_hours
      WINDOW younger AS (ORDER BY hour DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS aged
    WHERE age_ms >= $1::float8 AND keys_from_ms IS NOT NULL ORDER BY hour DESC LIMIT 1`,
};

/** Earlier hours are no longer needed. */
export const FORGET_HOURS: Statement = {
  name: 'forget_hours',
  text: 'DELETE FROM idempay.retention_hours WHERE hour < $1',
};

/**
 * A claim that read `keys_before` just before it was raised may still be running, and inserts a key that was removed
 * meanwhile. So a bound is used for removal only after every such claim has ended. First it is raised for claims. Then a
 * later statement, which could see it, notes when; and `$2` milliseconds after that, longer than any statement runs, it
 * becomes the bound for removal. The time does not count from the raise itself, because claims see it only after its commit.
 */
export const ADVANCE_HORIZON: Statement = {
  name: 'advance_horizon',
  text: `
    UPDATE idempay.payment_horizon
    SET seen_at = CASE WHEN seen_at IS NULL THEN clock_timestamp() END,
      removable_before = CASE WHEN seen_at IS NULL THEN removable_before ELSE keys_before END,
      keys_before = CASE WHEN seen_at IS NULL THEN keys_before ELSE greatest(keys_before, $1::uuid) END
    WHERE seen_at IS NULL OR seen_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'`,
};

const IS_BELOW_HORIZON = `settled_at < to_timestamp((SELECT ${timeOfMs('keys_before')} FROM idempay.payment_horizon) / 1000.0)`;

/** A final row of this hour or before that is repeated no longer, and was settled before the time of the horizon. */
const isOld = (row: string) =>
  `coalesce(${row}.settled_hour <= $4::integer AND ${row}.expires_at <= now() AND ${row}.${IS_BELOW_HORIZON}, false)`;

/** All refunds of the payment are old, or there are none. Not with EXISTS, for which the planner may read all refunds at once. */
const HAS_OLD_REFUNDS = `(payment.refunded IS NULL OR coalesce((
        SELECT bool_and(${isOld('refund')}) FROM idempay.payments AS refund WHERE refund.refund_of = payment.key), true))`;

/**
 * Looks at the next `$5` payments after `$1` (microseconds) and `$2` that were settled before `$3`, and removes the ones of
 * hour `$4` or before. Concurrent calls skip rows that another one removes. All attempts at a reference go in one statement, or none: an attempt
 * is only claimed after the one before it ended, so the last one decides, and it may not be under way. Their keys have no time, so they
 * were all settled before the time of the horizon: by that it is known which rows may have been removed (`IS_MISSING`). The same holds
 * for refunds: a payment goes with all of them in one statement, or stays, and a refund never goes by itself. A payment as old as this is not
 * refunded any more (`RefundAttempt.lateMs`). The latest removed settlement is noted for readers of the feed.
 */
export const REMOVE_SETTLED: Statement = {
  name: 'remove_settled',
  text: `
    WITH looked AS MATERIALIZED (
      SELECT key, settled_at, settled_hour <= $4::integer AND expires_at <= now() AND CASE WHEN reference IS NULL
          THEN key < (SELECT removable_before FROM idempay.payment_horizon) ELSE ${IS_BELOW_HORIZON} END
          AND refund_of IS NULL AND ${HAS_OLD_REFUNDS} AS removable,
        reference, client
      FROM idempay.payments AS payment
      WHERE (settled_at, key) > ('epoch'::timestamptz + $1::float8 * interval '1 microsecond', $2::uuid)
        AND settled_at < 'epoch'::timestamptz + $3::float8 * interval '1 millisecond'
      ORDER BY settled_at, key LIMIT $5::integer
    ), attempts AS MATERIALIZED (
      SELECT payment.key, bool_and(${isOld('payment')} AND ${HAS_OLD_REFUNDS})
          OVER (PARTITION BY payment.reference, payment.client) AS removable
      FROM idempay.payments AS payment
      WHERE payment.reference = ANY (ARRAY(SELECT reference FROM looked WHERE removable AND reference IS NOT NULL))
    ), locked AS MATERIALIZED (
      SELECT key, refunded FROM idempay.payments WHERE key = ANY (ARRAY(
        SELECT key FROM looked WHERE removable AND reference IS NULL UNION ALL SELECT key FROM attempts WHERE removable))
      FOR UPDATE SKIP LOCKED
    ), removed AS (
      DELETE FROM idempay.payments WHERE key = ANY (ARRAY(
        SELECT key FROM locked UNION ALL SELECT key FROM idempay.payments WHERE refund_of = ANY (ARRAY(
          SELECT key FROM locked WHERE refunded IS NOT NULL))))
      RETURNING settled_at
    ), noted AS (
      UPDATE idempay.payment_horizon SET removed_until = latest
      FROM (SELECT max(settled_at) AS latest FROM removed) AS last WHERE latest > coalesce(removed_until, '-infinity')
    )
    SELECT (SELECT count(*) FROM removed)::integer AS removed,
      (SELECT floor(extract(epoch FROM settled_at) * 1000000)::float8 FROM looked OFFSET $5::integer - 1) AS "settledAtUs",
      (SELECT key FROM looked OFFSET $5::integer - 1) AS key`,
};

/** True if the key is so old that retention may have removed its missing row. */
export const MAY_BE_REMOVED: Statement = {
  name: 'may_be_removed',
  text: 'SELECT $1::uuid < keys_before AS "mayBeRemoved" FROM idempay.payment_horizon',
};

/** The hour that is stored in a payment settled now. */
export const CURRENT_HOUR = '(SELECT max(hour) FROM idempay.retention_hours)';

const NOW_MS = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/**
 * `$1` is the time that the process got from its last call, `$2` the time that it has run since. A stored time below `$1` means
 * that this is another database (a failover, a restore): then the process only takes over the stored time.
 */
const SEEN_MS = `
  CASE WHEN until_ms < $1::bigint THEN until_ms ELSE greatest(until_ms, $1::bigint + least($2::bigint, ${HOUR_MS})) END`;

const AHEAD_MS = `(${NOW_MS} - clock_ms - (${SEEN_MS} - until_ms))`;

/** A concurrent update waits for the row and continues from its new values. */
export const NOTE_ELAPSED: Statement = {
  name: 'note_elapsed',
  text: `
    UPDATE idempay.retention_hours
    SET until_ms = ${SEEN_MS}, lowest_key_ms = least(lowest_key_ms, $3::bigint), clock_ms = ${NOW_MS},
      unseen_ms = unseen_ms + CASE WHEN ${AHEAD_MS} > ${HOUR_MS} THEN ${AHEAD_MS} ELSE 0 END,
      confirmed = confirmed AND ${AHEAD_MS} <= ${HOUR_MS}
    WHERE hour = ${CURRENT_HOUR}
    RETURNING hour, until_ms::float8 AS "seenMs", until_ms - from_ms >= ${HOUR_MS} AS "isOver"`,
};

export const BEGIN_HOUR: Statement = {
  name: 'begin_hour',
  text: `
    INSERT INTO idempay.retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms)
    SELECT hour + 1, until_ms, until_ms, $2::bigint, clock_ms FROM idempay.retention_hours WHERE hour = $1
    ON CONFLICT DO NOTHING`,
};

export const RETENTION_TIME: Statement = {
  name: 'retention_time',
  text: `
    SELECT (SELECT keys_before FROM idempay.payment_horizon) AS "keysBefore",
      (SELECT coalesce(sum(unseen_ms), 0)::float8 FROM idempay.retention_hours WHERE NOT confirmed) AS "unseenMs"`,
};
