import {
  CLOCKS_DIFFER_MS,
  GAP,
  LAST_DAY_US,
  LOOK_UP_REFERENCES_MS,
  MOST_LAST_ROWS,
} from '../../shared/replaced-database.js';
import { lowestKeyAt, timeOfMs } from '../payments/retention-statements.js';
import type { Statement } from './postgres.js';

const LIVE = `
  SELECT idempay.system_identifier() AS system_identifier, idempay.timeline() AS timeline,
    (SELECT oid FROM pg_database WHERE datname = current_database()) AS database_oid`;

const SEEN = '(deployment.system_identifier, deployment.database_oid, deployment.timeline, deployment.table_oid)';
const FOUND = '(live.system_identifier, live.database_oid, live.timeline, deployment.tableoid)';

/**
 * For statements that must do nothing if rows may be lost: on a timeline that is not recorded yet, and in tables that a dump made anew.
 * Also on a server that was started since it was last checked, because its files may come from a backup.
 */
export const ON_KNOWN_DATABASE = `EXISTS (
        SELECT FROM idempay.deployment AS known
        WHERE known.table_oid = known.tableoid AND known.checked_start = pg_postmaster_start_time()
          AND known.timeline = idempay.timeline())`;

export const GENERATION = '(SELECT known.generation FROM idempay.deployment AS known)';

/**
 * True if a commit is missing in this database. $1 to $6 have a value for each. $1 to $3 are a payment's key, its epoch, and true if it is
 * settled. $4 is a transaction's id; $5 is its version, or without an id the list's; $6 is the time of a computed key. A payment below the
 * horizon may have been removed since, and a transaction that was given its id may have been deleted. Each is read by a primary key
 * (docs/engineering/decisions/0038).
 */
const IS_MISSING = `
  CASE WHEN sent.key IS NOT NULL THEN
    (SELECT sent.key >= keys_before AND coalesce(sent.at_ms >= ${timeOfMs('keys_before')} + ${CLOCKS_DIFFER_MS}, true)
      FROM idempay.payment_horizon) AND NOT coalesce((
      SELECT payment.epoch >= sent.epoch AND (payment.settled_at IS NOT NULL OR NOT sent.settled)
      FROM idempay.payments AS payment WHERE payment.key = sent.key), false)
  WHEN sent.id IS NOT NULL THEN
    sent.id > (SELECT last_id FROM idempay.transaction_list) OR coalesce((
      SELECT changed.version < sent.version FROM idempay.transactions AS changed
      WHERE changed.id >= sent.id AND changed.id <= sent.id ORDER BY changed.id LIMIT 1), false)
  ELSE sent.version > (SELECT version FROM idempay.transaction_list) END`;

const START = '(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text';

/** Names the deployment, the server and the schema, and says if it is the server that was last seen. It waits for no table of payments. */
export const IDENTIFY: Statement = {
  name: 'identify_database',
  text: `
    SELECT id, generation, incarnation, deployment.timeline IS NULL AS "isNew", ${SEEN} IS NOT DISTINCT FROM ${FOUND} AS known,
      coalesce(checked_start = pg_postmaster_start_time(), false) AS checked,
      concat_ws('-', live.system_identifier, live.database_oid, live.timeline, incarnation) AS server, adopter,
      (SELECT max(name) FROM idempay.migrations) AS newest,
      (SELECT max(name) FROM idempay.migrations WHERE mode = 'full stop') AS "newestFullStop"
    FROM idempay.deployment AS deployment, (${LIVE}) AS live`,
};

/** The places, counted from 1, of the given commits that the database lacks, and the time at which its server started. */
export const MISSING_COMMITS: Statement = {
  name: 'missing_commits',
  text: `
    SELECT ${START} AS start, ARRAY(
      SELECT position::integer
      FROM unnest($1::uuid[], $2::integer[], $3::boolean[], $4::bigint[], $5::bigint[], $6::float8[]) WITH ORDINALITY
        AS sent (key, epoch, settled, id, version, at_ms, position)
      WHERE ${IS_MISSING}) AS missing`,
};

/** `$1`: the start of the server that has all commits. This connection may lead to another one. */
export const CHECKED: Statement = {
  name: 'database_checked',
  text: `
    UPDATE idempay.deployment SET checked_start = pg_postmaster_start_time()
    WHERE ${START} = $1 AND checked_start IS DISTINCT FROM pg_postmaster_start_time()`,
};

/** Begins another incarnation of the feed of settlements, under a condition on all of its rows. If another process begins one at the same moment, that one is enough. */
export const beginIncarnation = (condition: string) => `
    INSERT INTO idempay.settlement_incarnations (number, incarnation, began_at)
    SELECT max(number) + 1, right(replace(gen_random_uuid()::text, '-', ''), 16), clock_timestamp()
    FROM idempay.settlement_incarnations HAVING ${condition} ON CONFLICT DO NOTHING`;

/** A restore of a dump fills one table after the other, and makes the primary key of a table when that is filled. */
const IS_RESTORED = `NOT EXISTS (
        SELECT FROM unnest(ARRAY['idempay.payments', 'idempay.payment_horizon', 'idempay.settlement_incarnations',
          'idempay.transactions',
          'idempay.transaction_list', 'idempay.creation_keys', 'idempay.webhook_endpoints', 'idempay.webhook_set_aside']::regclass[]) AS filled (id)
        WHERE NOT EXISTS (SELECT FROM pg_index WHERE indrelid = filled.id AND indisprimary))`;

/** A transaction id begins with the microsecond of its first claim. */
const LAST_ROWS = `
              SELECT processor FROM idempay.payments
              WHERE transaction_id >= (
                SELECT 'TXN' || lpad(greatest(0, substr(max(transaction_id), 4, 16)::bigint - ${LAST_DAY_US})::text, 16, '0') || '000000'
                FROM idempay.payments)
              ORDER BY transaction_id DESC LIMIT ${MOST_LAST_ROWS}`;

/**
 * The processors of the last day before the loss. If keys are still looked up because of an earlier loss, they must also be of the day
 * before that one. NULL if nothing was ever paid.
 */
const PROCESSORS_BEFORE_LOSS = `CASE WHEN processors <> '{}' THEN ARRAY(
            SELECT DISTINCT last.processor FROM (${LAST_ROWS}) AS last
            WHERE last.processor IS NOT NULL AND (
              processors_before_loss IS NULL
              OR look_up_references_until <= (SELECT max(until_ms) FROM idempay.retention_hours)
              OR last.processor = ANY (processors_before_loss))) END`;

/** The very first server replaces none. */
const REPLACES = "look_up_before > '00000000-0000-0000-0000-000000000000'";

/**
 * Writes down that the newest rows may be lost, once for all processes, together with all consequences: ids go on after a gap,
 * keys are looked up, and marks of unsent payments end with the generation. `$1`: the incarnation that lacks a commit, or
 * NULL; `$2`: the highest generation that is known of. A backup may be restored twice, so there is a gap for each generation.
 */
export const ADOPT: Statement = {
  name: 'adopt_database',
  text: `
    WITH adopted AS (
      UPDATE idempay.deployment AS deployment
      SET system_identifier = live.system_identifier, database_oid = live.database_oid, timeline = live.timeline,
        table_oid = deployment.tableoid, checked_start = pg_postmaster_start_time(),
        generation = greatest(deployment.generation, $2) + 1,
        incarnation = right(replace(gen_random_uuid()::text, '-', ''), 16),
        look_up_before = CASE WHEN deployment.timeline IS NULL THEN look_up_before
          ELSE greatest(look_up_before,
            ${lowestKeyAt(`(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ${CLOCKS_DIFFER_MS}`)}) END,
        look_up_references_until = CASE WHEN deployment.timeline IS NULL THEN look_up_references_until
          ELSE (SELECT max(until_ms) FROM idempay.retention_hours) + ${LOOK_UP_REFERENCES_MS} END,
        processors_before_loss = CASE WHEN deployment.timeline IS NULL THEN processors_before_loss
          ELSE ${PROCESSORS_BEFORE_LOSS} END,
        lost_ms = CASE WHEN deployment.timeline IS NULL THEN lost_ms ELSE (
          SELECT (extract(epoch FROM clock_timestamp() - claimed_at) * 1000)::float8 FROM idempay.payments
          ORDER BY transaction_id DESC LIMIT 1) END,
        adopted_at = CASE WHEN deployment.timeline IS NULL THEN adopted_at ELSE clock_timestamp() END
      FROM (${LIVE}) AS live, (SELECT generation FROM idempay.deployment) AS before
      WHERE (${SEEN} IS DISTINCT FROM ${FOUND} OR deployment.incarnation = $1) AND ${IS_RESTORED}
      RETURNING look_up_before, (deployment.generation - before.generation) * ${GAP}::bigint AS gap),
    begun AS (${beginIncarnation(`EXISTS (SELECT FROM adopted WHERE ${REPLACES})`)})
    UPDATE idempay.transaction_list
    SET last_id = last_id + gap, version = version + gap, last_removal_version = version + gap
    FROM adopted WHERE ${REPLACES}`,
};
