import type { Statement } from './postgres.js';

/** The lowest UUIDv7 of a moment: 48 bits of time in milliseconds since the epoch, then the version and the variant alone. */
export const lowestKeyAt = (ms: string) => `(lpad(to_hex(${ms}), 12, '0') || '70008000000000000000')::uuid`;

/** `$1` milliseconds ago. */
const THEN_MS = 'greatest(0, floor(extract(epoch FROM clock_timestamp()) * 1000 - $1::float8))::bigint';

/** When a key (a UUIDv7) was generated: milliseconds since the epoch. */
export const timeOfMs = (key: string) => `('x0000' || left(replace(${key}::text, '-', ''), 12))::bit(64)::bigint`;

/** A millisecond after the newest key that has a row was generated. */
const AFTER_THE_NEWEST_MS = `(
  SELECT ${timeOfMs('key')} + 1
  FROM idempay.payments ORDER BY key DESC LIMIT 1)`;

/** No higher than there are rows: a clock that was ahead for a while must not refuse the keys of the time after. */
const NEXT_BOUND = lowestKeyAt(`least(${THEN_MS}, coalesce(${AFTER_THE_NEWEST_MS}, 0))`);

/**
 * A claim that read `keys_before` just before it was raised may still be running, and inserts a key that was removed
 * meanwhile. So a bound is used for removal only after every such claim has ended: first it is raised for claims; then a
 * later statement, which could see it, notes when; and `$2` milliseconds after that, longer than any statement runs, it
 * becomes the bound for removal. Not from the raise itself: its commit may take long, and nobody sees it before.
 */
export const ADVANCE_HORIZON: Statement = {
  name: 'advance_horizon',
  text: `
    UPDATE idempay.payment_horizon
    SET seen_at = CASE WHEN seen_at IS NULL THEN clock_timestamp() END,
      removable_before = CASE WHEN seen_at IS NULL THEN removable_before ELSE keys_before END,
      keys_before = CASE WHEN seen_at IS NULL THEN keys_before ELSE greatest(keys_before, ${NEXT_BOUND}) END
    WHERE seen_at IS NULL OR seen_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'`,
};

/**
 * Looks at `$3` of the oldest rows only, so that it is short also where most are still repeated. Of two at once one leaves
 * to the other what that has begun to remove.
 */
export const REMOVE_SETTLED: Statement = {
  name: 'remove_settled',
  text: `
    DELETE FROM idempay.payments WHERE key = ANY (ARRAY(
      SELECT key FROM idempay.payments WHERE key = ANY (ARRAY(
        SELECT key FROM (
          SELECT key, expires_at FROM idempay.payments
          WHERE settled_at < now() - $1::float8 * interval '1 millisecond'
          ORDER BY settled_at, key LIMIT $3) AS oldest
        WHERE expires_at <= now() AND key < (SELECT removable_before FROM idempay.payment_horizon)
        LIMIT $2))
      FOR UPDATE SKIP LOCKED))
    RETURNING 1`,
};

/** Whether the key is so old that its row, where it has none, may have been removed. */
export const MAY_BE_REMOVED: Statement = {
  name: 'may_be_removed',
  text: 'SELECT $1::uuid < keys_before AS "mayBeRemoved" FROM idempay.payment_horizon',
};
