import type { Ledger } from '../../../payments/ports/ledger.js';
import { keyTimeOf } from '../../../payments/values/idempotency-key.js';
import { HOUR_MS } from '../../shared/retention-hour.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';

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
const NOTE_ELAPSED: Statement = {
  name: 'note_elapsed',
  text: `
    UPDATE idempay.retention_hours
    SET until_ms = ${SEEN_MS}, lowest_key_ms = least(lowest_key_ms, $3::bigint), clock_ms = ${NOW_MS},
      unseen_ms = unseen_ms + CASE WHEN ${AHEAD_MS} > ${HOUR_MS} THEN ${AHEAD_MS} ELSE 0 END,
      confirmed = confirmed AND ${AHEAD_MS} <= ${HOUR_MS}
    WHERE hour = ${CURRENT_HOUR}
    RETURNING hour, until_ms::float8 AS "seenMs", until_ms - from_ms >= ${HOUR_MS} AS "isOver"`,
};

const BEGIN_HOUR: Statement = {
  name: 'begin_hour',
  text: `
    INSERT INTO idempay.retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms)
    SELECT hour + 1, until_ms, until_ms, $2::bigint, clock_ms FROM idempay.retention_hours WHERE hour = $1
    ON CONFLICT DO NOTHING`,
};

const RETENTION_TIME: Statement = {
  name: 'retention_time',
  text: `
    SELECT (SELECT keys_before FROM idempay.payment_horizon) AS "keysBefore",
      (SELECT coalesce(sum(unseen_ms), 0)::float8 FROM idempay.retention_hours WHERE NOT confirmed) AS "unseenMs"`,
};

/** The time that the processes of this deployment have seen pass. */
export function createNoteElapsed(database: PostgresPart): Ledger['noteElapsed'] {
  return async ({ sinceMs, elapsedMs, lowestKeyMs }) => {
    const [hour] = await database.write<{ hour: number; seenMs: number; isOver: boolean }>(NOTE_ELAPSED, [
      sinceMs,
      elapsedMs,
      lowestKeyMs,
    ]);
    if (!hour) throw new Error('idempay.retention_hours is empty: restore its rows from a backup');
    if (hour.isOver) await database.write(BEGIN_HOUR, [hour.hour, lowestKeyMs]);
    const [time] = await database.read<{ keysBefore: string; unseenMs: number }>(RETENTION_TIME);
    return { seenMs: hour.seenMs, keysFromMs: keyTimeOf(time?.keysBefore ?? ''), unseenMs: time?.unseenMs ?? 0 };
  };
}
