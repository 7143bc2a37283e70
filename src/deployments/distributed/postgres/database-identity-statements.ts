import { CLOCKS_DIFFER_MS, GAP } from '../../replaced-database.js';
import { lowestKeyAt } from './payment-horizon-statements.js';
import type { Statement } from './postgres.js';

const LIVE = `
  SELECT idempay.system_identifier() AS system_identifier, idempay.timeline() AS timeline,
    (SELECT oid FROM pg_database WHERE datname = current_database()) AS database_oid`;

const SEEN = '(deployment.system_identifier, deployment.database_oid, deployment.timeline)';
const FOUND = '(live.system_identifier, live.database_oid, live.timeline)';

/** For statements that must do nothing on a timeline that is not recorded yet: rows may be lost there. */
export const ON_KNOWN_TIMELINE = 'idempay.timeline() = (SELECT timeline FROM idempay.deployment)';

/** Which deployment and which server this is, whether it is the one that was last seen, and how far its log is written. */
export const IDENTIFY: Statement = {
  name: 'identify_database',
  text: `
    SELECT id, incarnation, live.timeline, ${SEEN} IS NOT DISTINCT FROM ${FOUND} AS known,
      concat_ws('-', live.system_identifier, live.database_oid, live.timeline, incarnation) AS server,
      idempay.log_position() AS position
    FROM idempay.deployment AS deployment, (${LIVE}) AS live`,
};

/**
 * Writes down that the server is another one than the last, once for all processes, together with everything that follows
 * from rows that may be lost: ids go on after a gap, and a payment that was never sent may have been sent by a lost
 * takeover. `$1`: the incarnation that was found at an earlier position than before, or NULL. The very
 * first server replaces none.
 */
export const ADOPT: Statement = {
  name: 'adopt_database',
  text: `
    WITH adopted AS (
      UPDATE idempay.deployment AS deployment
      SET system_identifier = live.system_identifier, database_oid = live.database_oid, timeline = live.timeline,
        incarnation = right(replace(gen_random_uuid()::text, '-', ''), 16),
        look_up_before = CASE WHEN deployment.timeline IS NULL THEN look_up_before
          ELSE greatest(look_up_before,
            ${lowestKeyAt(`(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ${CLOCKS_DIFFER_MS}`)}) END
      FROM (${LIVE}) AS live
      WHERE ${SEEN} IS DISTINCT FROM ${FOUND} OR incarnation = $1
      RETURNING look_up_before),
    marked AS (
      UPDATE idempay.payments SET unsent_epoch = NULL
      FROM adopted WHERE state = 'PROCESSING' AND unsent_epoch IS NOT NULL)
    UPDATE idempay.transaction_list
    SET last_id = last_id + ${GAP}, version = version + ${GAP}, last_removal_version = version + ${GAP}
    FROM adopted WHERE look_up_before > '00000000-0000-0000-0000-000000000000'`,
};

/** Whether a missing row of this key may have been lost with an earlier database server. */
export const MAY_BE_LOST: Statement = {
  name: 'may_be_lost',
  text: 'SELECT $1::uuid < look_up_before AS "mayBeLost" FROM idempay.deployment',
};
