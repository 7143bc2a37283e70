import { BEGIN_EARLIER_US } from '../../shared/settlement-reads.js';
import type { Statement } from '../connection/postgres.js';

/** Everything that an owner writes is fenced by it. */
const IS_OWNED = 'name = $1 AND owner = $2 AND stopped_by IS NULL';
const later = (ms: string) => `clock_timestamp() + ${ms}::float8 * interval '1 millisecond'`;
/**
 * True if nobody has the lease. One that ends later than two leases from now was given before the server's clock was set back: its owner may be
 * dead, and one that lives lengthens its own soon. Each takes the row of `webhook_endpoints`.
 */
const isFree = (leaseMs: string) =>
  `(endpoint.owner IS NULL OR endpoint.lease_until <= clock_timestamp() OR endpoint.lease_until > ${later(`2 * ${leaseMs}`)})`;
const milliseconds = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)::float8`;

/** $1 to $4: the name, the owner, the client, and how long the lease lasts. */
export const TAKE: Statement = {
  name: 'take_endpoint',
  text: `
    WITH taken AS (
      UPDATE idempay.webhook_endpoints AS endpoint SET owner = $2, lease_until = ${later('$4')}
      WHERE name = $1 AND client IS NOT DISTINCT FROM $3::text AND stopped_by IS NULL AND (owner = $2 OR ${isFree('$4')})
      RETURNING name, incarnation, at_us, key)
    SELECT endpoint.name, endpoint.stopped_by, taken.name IS NOT NULL AS taken,
      endpoint.client IS DISTINCT FROM $3::text AND (endpoint.owner = $2 OR ${isFree('$4')}) AS is_other,
      taken.incarnation, taken.at_us::float8 AS at_us, taken.key,
      (SELECT count(*) FROM idempay.webhook_set_aside WHERE endpoint = $1)::integer AS set_aside,
      EXISTS (SELECT FROM idempay.webhook_set_aside WHERE endpoint = $1 AND next_try_at <= clock_timestamp()) AS is_due
    FROM idempay.webhook_endpoints AS endpoint LEFT JOIN taken ON true WHERE endpoint.name = $1`,
};

/** The incarnation before the first one that is young. NULL if rows cannot have been lost in this time. */
const BEFORE_LOSS = `(
        SELECT former.incarnation FROM idempay.settlement_incarnations AS young
        JOIN idempay.settlement_incarnations AS former ON former.number = young.number - 1
        WHERE young.began_at > clock_timestamp() - ${BEGIN_EARLIER_US} * interval '1 microsecond' ORDER BY young.number LIMIT 1)`;

/** $1 to $6: the name, the client, the position, and how long a lease lasts. Nothing tells a row that was lost from a new one. */
export const BEGIN: Statement = {
  name: 'begin_endpoint',
  text: `
    WITH begun AS (
      INSERT INTO idempay.webhook_endpoints AS endpoint (name, client, incarnation, at_us, key, lease_until)
      VALUES ($1, $2, coalesce(${BEFORE_LOSS}, $3), $4::bigint, $5::uuid, clock_timestamp())
      ON CONFLICT (name) DO UPDATE
        SET client = excluded.client, incarnation = excluded.incarnation, at_us = excluded.at_us, key = excluded.key, owner = NULL
        WHERE endpoint.client IS DISTINCT FROM excluded.client
          AND ${isFree('$6')}
      RETURNING name)
    DELETE FROM idempay.webhook_set_aside WHERE endpoint IN (SELECT name FROM begun)`,
};

/** $1 to $5: the name, the owner and the position. */
export const ADVANCE: Statement = {
  name: 'advance_endpoint',
  text: `
    UPDATE idempay.webhook_endpoints SET incarnation = $3, at_us = $4::bigint, key = $5::uuid WHERE ${IS_OWNED} RETURNING name`,
};

/** The row of the endpoint stays locked until the commit, so that no later owner has begun. */
const OWNED = `owned AS (SELECT name FROM idempay.webhook_endpoints WHERE ${IS_OWNED} FOR UPDATE)`;

/** $3 to $6: the key, the cause, the time until the next try, and how many may be set aside. */
export const SET_ASIDE: Statement = {
  name: 'set_settlement_aside',
  text: `
    WITH ${OWNED},
    room AS (SELECT name FROM owned WHERE (SELECT count(*) FROM idempay.webhook_set_aside WHERE endpoint = $1) < $6::integer),
    added AS (
      INSERT INTO idempay.webhook_set_aside (endpoint, key, cause, set_aside_at, next_try_at)
      SELECT name, $3::uuid, $4::text, clock_timestamp(), ${later('$5')} FROM room
      ON CONFLICT DO NOTHING)
    SELECT EXISTS (SELECT FROM owned) AS owned,
      EXISTS (SELECT FROM room) OR EXISTS (SELECT FROM idempay.webhook_set_aside WHERE endpoint = $1 AND key = $3::uuid) AS kept`,
};

export const DUE: Statement = {
  name: 'due_settlements',
  text: `
    SELECT key FROM idempay.webhook_set_aside
    WHERE endpoint = $1 AND next_try_at <= clock_timestamp() ORDER BY next_try_at, key LIMIT $2`,
};

/** $3 to $6: the key, the cause, the time until the next try, and since it was set aside until it is only kept. */
export const REFUSED_AGAIN: Statement = {
  name: 'settlement_refused_again',
  text: `
    WITH ${OWNED},
    changed AS (
      UPDATE idempay.webhook_set_aside SET cause = $4, next_try_at = CASE
        WHEN clock_timestamp() < set_aside_at + $6::float8 * interval '1 millisecond' THEN ${later('$5')} END
      WHERE key = $3::uuid AND endpoint IN (SELECT name FROM owned))
    SELECT name FROM owned`,
};

export const REMOVE_SET_ASIDE: Statement = {
  name: 'remove_set_aside',
  text: `
    WITH ${OWNED},
    removed AS (DELETE FROM idempay.webhook_set_aside WHERE key = $3::uuid AND endpoint IN (SELECT name FROM owned))
    SELECT name FROM owned`,
};

export const STOP_SERVING: Statement = {
  name: 'stop_serving_endpoint',
  text: `
    UPDATE idempay.webhook_endpoints SET stopped_by = 'receiver', owner = NULL WHERE ${IS_OWNED} RETURNING name`,
};

export const RELEASE: Statement = {
  name: 'release_endpoint',
  text: 'UPDATE idempay.webhook_endpoints SET owner = NULL WHERE name = $1 AND owner = $2',
};

/** An endpoint that its receiver has stopped stays so. */
export const STOP: Statement = {
  name: 'stop_endpoint',
  text: `
    UPDATE idempay.webhook_endpoints SET stopped_by = coalesce(stopped_by, 'operator'), owner = NULL WHERE name = $1 RETURNING name`,
};

export const START: Statement = {
  name: 'start_endpoint',
  text: 'UPDATE idempay.webhook_endpoints SET stopped_by = NULL WHERE name = $1 RETURNING name',
};

export const RESEND: Statement = {
  name: 'resend_settlements',
  text: `
    WITH changed AS (
      UPDATE idempay.webhook_set_aside SET next_try_at = clock_timestamp()
      WHERE endpoint = $1 AND ($2::uuid IS NULL OR key = $2::uuid) RETURNING key)
    SELECT (SELECT count(*) FROM changed)::integer AS count FROM idempay.webhook_endpoints WHERE name = $1`,
};

/** `$1`: the name, or NULL. */
export const LIST: Statement = {
  name: 'list_endpoints',
  text: `
    SELECT name, client, stopped_by, incarnation, at_us::float8 AS at_us, key,
      (SELECT count(*) FROM idempay.webhook_set_aside WHERE endpoint = name)::integer AS set_aside
    FROM idempay.webhook_endpoints WHERE $1::text IS NULL OR name = $1 ORDER BY name`,
};

export const LIST_SET_ASIDE: Statement = {
  name: 'list_set_aside',
  text: `
    SELECT key, cause, ${milliseconds('set_aside_at')} AS set_aside_at, ${milliseconds('next_try_at')} AS next_try_at
    FROM idempay.webhook_set_aside AS aside WHERE endpoint = $1 ORDER BY aside.set_aside_at, key LIMIT $2`,
};
