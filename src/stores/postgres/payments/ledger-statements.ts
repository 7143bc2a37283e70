import type { QueryResultRow } from 'pg';
import { type DueFirst, RESOLVABLE_AFTER_CLAIM_MS, RESOLVABLE_AFTER_UNTIL_MS } from '../../../payments/ports/ledger.js';
import { UNKNOWN_FINGERPRINT } from '../../../payments/values/money.js';
import type { Commit } from '../../shared/last-commits.js';
import { FIRST_COMPUTED_KEY } from '../../shared/replaced-database.js';
import { GENERATION, ON_KNOWN_DATABASE } from '../connection/database-identity-statements.js';
import type { Statement } from '../connection/postgres.js';
import { ENDS_IN_TIME } from '../connection/session.js';
import { PAYMENT_COLUMNS } from './payment-row.js';
import { CURRENT_HOUR, lowestKeyAt, timeOfMs } from './retention-statements.js';

/**
 * A statement by key is planned by the primary key, whatever the statistics say (docs/engineering/decisions/0038). A CHECK of the table
 * makes `settled_at IS NULL` equal to PROCESSING. With the state itself, the planner would use the index of payments under way and
 * read all of it.
 */
export const UNDER_WAY = 'settled_at IS NULL';

/** The same again, for the index of what recovery may take: no statement by key may be planned by that index. */
const DUE_WHILE = 'expires_at IS NULL';

/** The same for DECLINED: with the state itself, the planner would use the index of all that was declined. */
const IS_DECLINED = 'reason IS NOT NULL';

/** Rows of computed keys may have been lost; a condition for `idempay.deployment`. */
export const REFERENCES_ARE_LOOKED_UP =
  'look_up_references_until > (SELECT max(until_ms) FROM idempay.retention_hours)';

/**
 * A key of a batch, as a condition that only an index can be searched by. With `=` the planner may hash or merge the whole
 * table. The rows are locked in the order of the batch.
 */
const keyIs = (key: string) => `payment.key = ANY (ARRAY[${key}])`;

/**
 * The events of a row with one more, at the time of the statement. `event`: its other members (`payment-rows.ts`). A payment
 * that its first attempt settled has none.
 */
export const eventsWith = (epoch: string, event: string) => `idempay.with_event(events, ${event} || jsonb_build_object(
        'at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, 'execution', ${epoch}))`;

/** An epoch that begins now, with the owner that is overwritten; '' if it was given up. */
const eventsWithEpoch = (kind: 'taken over' | 'resolved') =>
  eventsWith('epoch + 1', `jsonb_build_object('kind', '${kind}', 'from', nullif(owner, ''))`);

/** The age of a settled row, by the time of retention; an hour that was forgotten is too long ago. */
export const ageOfHour = (row: string) => `(
            SELECT (SELECT max(until_ms) FROM idempay.retention_hours) - until_ms + (
              SELECT coalesce(sum(younger.unseen_ms), 0) FROM idempay.retention_hours AS younger
              WHERE younger.hour > old.hour AND younger.confirmed)
            FROM idempay.retention_hours AS old WHERE old.hour = ${row}.settled_hour)`;

/**
 * `clock_timestamp()` and not `now()`, so that time spent waiting counts. The attempts are sorted below the condition (`OFFSET 0`
 * prevents another order), so each is checked just before its own insert. An insert that waits for another insert of its key was
 * checked before the wait. If the other one is rolled back, this one may come after its deadline, by at most the time-out of a
 * statement. It is still the only row of its key.
 * The horizon comes from the statement's snapshot: `retention-statements.ts` says why an old one is harmless.
 *
 * A processor must be registered (`processor-names.ts`). On a database that was not checked yet every claim and takeover is refused. If
 * the key's row may have been lost, the first claim counts as made when the key was generated: that bounds how long ago the lost one may
 * have charged.
 */
export const CLAIM: Statement = claimStatement('claim', {
  arrays: '',
  columns: '',
  inserted: '',
  values: '',
  losable: 'key < look_up_before',
  condition: '',
});

/**
 * The same for a batch with at least one payment that has content or a reference. It must be the turn of an attempt at a reference: the
 * one before is DECLINED, and will not be removed soon. If rows were lost it waits (`ClaimAttempt.waitAfterLossMs`).
 */
export const CLAIM_IN_FULL: Statement = claimStatement('claim_in_full', {
  arrays:
    ', $15::text[], $16::integer[], $17::uuid[], $18::float8[], $19::float8[], $20::text[], $21::text[], $22::float8[]',
  columns: ', reference, attempt, previous_key, late_ms, wait_after_loss_ms, source, content, short_loss_ms',
  inserted: ', reference, attempt, source, content',
  values: ', reference, attempt, CASE WHEN NOT settles THEN source END, content',
  losable: mayBeLost('key'),
  condition: `
      AND (previous_key IS NULL OR ${isTurnAfter('previous_key', 'late_ms')})
      AND (NOT may_be_lost OR reference IS NULL OR lost_ms < short_loss_ms OR ${isAfterLoss('wait_after_loss_ms')})
      AND (reference IS NULL OR ${knowsAdopter('adopter', '$23')})`,
});

/** True if an earlier row of the key may have been lost. `look_up_before` and the other column are columns of the deployment. */
function mayBeLost(key: string): string {
  return `(${key} < look_up_before
        OR (${key} >= '${FIRST_COMPUTED_KEY}' AND ${REFERENCES_ARE_LOOKED_UP}))`;
}

/**
 * Only a processor of the day before the loss, or an account that had one of their names (`former`), can tell what became of a lost row; any
 * can, if nobody knows of another one.
 */
function canKnowLostRows(processor: string, former: string): string {
  return `(processors_before_loss IS NULL OR ${processor} = ANY (processors_before_loss)
        OR processors_before_loss && ${former}::text[])`;
}

/** Long enough since the last adoption of a database that lacks rows. */
function isAfterLoss(waitMs: string): string {
  return `clock_timestamp() >= adopted_at + ${waitMs} * interval '1 millisecond'`;
}

/**
 * A process that does not know who adopted the orders without a client computes the keys of that client's references in another way. If
 * they stay nobody's, a process without credentials would compute the keys of all of them in another way. A row without a reference is
 * not compared: nothing of its key is computed, so that it is the same payment in every process.
 */
function knowsAdopter(adopter: string, known: string): string {
  return `${adopter} IS NOT DISTINCT FROM ${known}::text`;
}

function isTurnAfter(previousKey: string, lateMs: string): string {
  return `EXISTS (
          SELECT FROM idempay.payments AS previous
          WHERE previous.key = ANY (ARRAY[${previousKey}]) AND previous.${IS_DECLINED}
            AND (${lateMs} IS NULL OR ${ageOfHour('previous')} < ${lateMs}))`;
}

/** `$14`: former names of the processor. `more` is what only payments with content or a reference need. */
function claimStatement(
  name: string,
  more: Readonly<Record<'arrays' | 'columns' | 'inserted' | 'values' | 'losable' | 'condition', string>>,
): Statement {
  return {
    name,
    text: `
    INSERT INTO idempay.payments
      (key, transaction_id, amount, currency, fingerprint, client, processor, epoch, owner, lease_until, recover_at, claimed_at,
        generation, claimed_after_loss, state, reason, settled_at, settled_hour, expires_at${more.inserted})
    SELECT key, transaction_id, amount, currency, fingerprint, client, processor, 1, owner,
      clock_timestamp() + lease_ms * interval '1 millisecond', clock_timestamp() + lease_ms * interval '1 millisecond',
      CASE WHEN key < look_up_before
        THEN least(clock_timestamp(), to_timestamp(${timeOfMs('key')} / 1000.0)) ELSE clock_timestamp() END,
      generation, CASE WHEN may_be_lost THEN true END, CASE WHEN settles THEN outcome ELSE 'PROCESSING' END, CASE WHEN settles THEN reason END,
      CASE WHEN settles THEN clock_timestamp() END, CASE WHEN settles THEN ${CURRENT_HOUR} END,
      CASE WHEN settles THEN clock_timestamp() + idempotency_ttl_ms * interval '1 millisecond' END${more.values}
    FROM (
      SELECT lost.*, outcome IS NOT NULL AND NOT may_be_lost AS settles
      FROM (
        SELECT sent.*, generation, look_up_before, adopted_at, lost_ms, processors, processors_before_loss, adopter, ${more.losable} AS may_be_lost
        FROM
          unnest($1::uuid[], $2::text[], $3::numeric[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::float8[], $10::float8[], $11::text[], $12::text[], $13::float8[]${more.arrays})
          AS sent (key, transaction_id, amount, currency, fingerprint, client, processor, owner, lease_ms, claim_before,
            outcome, reason, idempotency_ttl_ms${more.columns}),
          idempay.deployment) AS lost
      ORDER BY key OFFSET 0) AS attempt
    WHERE clock_timestamp() <= to_timestamp(claim_before / 1000)
      AND key >= (SELECT keys_before FROM idempay.payment_horizon)
      AND processor = ANY (processors)
      AND (NOT may_be_lost OR ${canKnowLostRows('processor', '$14')})
      AND ${ENDS_IN_TIME}
      AND ${ON_KNOWN_DATABASE}${more.condition}
    ON CONFLICT (key) DO NOTHING
    RETURNING key, owner, (SELECT ${more.losable} FROM idempay.deployment) AS may_be_lost,
      (extract(epoch FROM clock_timestamp() - claimed_at) * 1000)::float8 AS age_ms,
      floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at`,
    commitOf(rows) {
      // Rather one that will be charged.
      const row = rows.find(({ expires_at }) => expires_at === null) ?? rows[0];
      return row && { key: row.key, epoch: 1, settled: row.expires_at !== null };
    },
  };
}

/**
 * Closes a payment before it is claimed. $1 to $10 are key, transaction id, client, owner, the last moment (ms), life (ms), reference,
 * attempt, and of its turn the key before and the age that is too late. $11 waits after a loss, $12 says that the processor was asked,
 * $13 and $14 are its name and the former ones, and $15 is the client that is known to have adopted the orders without a client.
 */
export const CANCEL: Statement = {
  name: 'cancel',
  text: `
    INSERT INTO idempay.payments
      (key, transaction_id, fingerprint, client, epoch, owner, lease_until, recover_at, claimed_at, generation, state, settled_at,
        settled_hour, expires_at, reference, attempt)
    SELECT $1::uuid, $2::text, '', $3::text, 1, $4::text, to_timestamp(0), at, at, generation, 'CANCELLED', at, ${CURRENT_HOUR},
      at + $6::float8 * interval '1 millisecond', $7::text, $8::integer
    FROM (SELECT clock_timestamp() AS at) AS now, idempay.deployment
    WHERE at <= to_timestamp($5::float8 / 1000)
      AND $1::uuid >= (SELECT keys_before FROM idempay.payment_horizon)
      AND ${ENDS_IN_TIME}
      AND ${ON_KNOWN_DATABASE}
      AND ($9::uuid IS NULL OR ${isTurnAfter('$9::uuid', '$10::float8')})
      AND (NOT ${mayBeLost('$1::uuid')} OR (
        $12::boolean AND ${isAfterLoss('$11::float8')} AND ${canKnowLostRows('$13::text', '$14')}))
      AND ($7::text IS NULL OR ${knowsAdopter('adopter', '$15')})
    ON CONFLICT (key) DO NOTHING
    RETURNING key`,
  commitOf: ([row]) => row && { key: row.key, epoch: 1, settled: true },
};

/**
 * Claims an attempt that the processor has a record of although its row is lost, with the rows before it that are missing, as DECLINED.
 * $1 to $3 are the keys, transaction ids and numbers of all of them, the claimed one last. $4 to $9 are amount, currency, fingerprint,
 * client, processor and owner of the claim. $10 is the lease (ms), $11 the last moment (ms), $12 the reference, $13 and $14 source and
 * content. $15 to $17 are reason, resolution and life (ms) of the others, whose amount is not known: they have no fingerprint. $18 are the
 * former names of the processor, and $19 is the client that is known to have adopted the orders without a client. Nothing is inserted if one
 * of the others has another state.
 */
export const CLAIM_KNOWN: Statement = {
  name: 'claim_known',
  text: `
    INSERT INTO idempay.payments
      (key, transaction_id, amount, currency, fingerprint, client, processor, epoch, owner, lease_until, recover_at, claimed_at, generation,
        claimed_after_loss, state, reason, resolution, settled_at, settled_hour, expires_at, reference, attempt, source, content)
    SELECT key, transaction_id, $4::numeric, $5::text, CASE WHEN is_claimed THEN $6::text ELSE '${UNKNOWN_FINGERPRINT}' END, $7::text,
      $8::text, 1, CASE WHEN is_claimed THEN $9::text ELSE '' END,
      CASE WHEN is_claimed THEN at + $10::float8 * interval '1 millisecond' ELSE to_timestamp(0) END,
      at + $10::float8 * interval '1 millisecond', at, generation, true,
      CASE WHEN is_claimed THEN 'PROCESSING' ELSE 'DECLINED' END, CASE WHEN NOT is_claimed THEN $15::text END,
      CASE WHEN NOT is_claimed THEN $16::text END, CASE WHEN NOT is_claimed THEN at END,
      CASE WHEN NOT is_claimed THEN ${CURRENT_HOUR} END,
      CASE WHEN NOT is_claimed THEN at + $17::float8 * interval '1 millisecond' END,
      $12::text, attempt, CASE WHEN is_claimed THEN $13::text END, CASE WHEN is_claimed THEN $14::text END
    FROM (
      SELECT sent.*, attempt = cardinality($1::uuid[]) AS is_claimed
      FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS sent (key, transaction_id, attempt)
      ORDER BY key OFFSET 0) AS sent,
      (SELECT clock_timestamp() AS at) AS now, idempay.deployment
    WHERE at <= to_timestamp($11::float8 / 1000)
      AND ${ENDS_IN_TIME}
      AND ${ON_KNOWN_DATABASE}
      AND ${canKnowLostRows('$8::text', '$18')}
      AND ${knowsAdopter('adopter', '$19')}
      AND NOT EXISTS (
        SELECT FROM idempay.payments AS before
        WHERE before.key = ANY (trim_array($1::uuid[], 1)) AND before.reason IS NULL)
    ON CONFLICT (key) DO NOTHING
    RETURNING owner, key, true AS may_be_lost, 0::float8 AS age_ms, NULL::float8 AS expires_at`,
  commitOf(rows) {
    const row = rows.find(({ owner }) => owner !== '');
    return row && { key: row.key, epoch: 1, settled: false };
  },
};

/**
 * Why a row of this turn was not inserted. `$1` to `$6` are parameters of `CANCEL`: the key, the key before, its age, the wait, and the
 * processor's name and former names. `$7`: a loss of less time needs no wait (ms).
 */
export const EXPLAIN_TURN: Statement = {
  name: 'explain_turn',
  text: `
    SELECT ${mayBeLost('$1::uuid')} AS "mayBeLost", ${canKnowLostRows('$5::text', '$6')} AS "canKnow",
      CASE WHEN previous.state = 'PROCESSING' AND previous.pending_until IS NOT NULL THEN 'PENDING' ELSE previous.state END AS previous,
      coalesce($3::float8 IS NULL OR ${ageOfHour('previous')} < $3::float8, false) AS "inTime",
      CASE WHEN lost_ms < $7::float8 THEN 0 ELSE
        coalesce((extract(epoch FROM adopted_at + $4::float8 * interval '1 millisecond' - clock_timestamp()) * 1000)::float8, 0)
      END AS "remainingMs"
    FROM idempay.deployment
    LEFT JOIN idempay.payments AS previous ON previous.key = $2::uuid`,
};

const takenOver = ([row]: readonly QueryResultRow[]): Commit | undefined =>
  row && { key: row.key, epoch: row.epoch, settled: false };
export const settled = ([row]: readonly QueryResultRow[]): Commit | undefined =>
  row && { key: row.key, epoch: row.epoch, settled: true };

export const FIND: Statement = {
  name: 'find_payments',
  text: `SELECT ${PAYMENT_COLUMNS} FROM idempay.payments WHERE key = ANY ($1::uuid[])`,
};

/** `$2`: how long ago the key was generated, at least; `$3`: the client that asks, or NULL. */
export const ENDED_UNCLAIMED: Statement = {
  name: 'ended_unclaimed',
  text: `
    SELECT 1 FROM idempay.deployment, idempay.payment_horizon
    WHERE $1::uuid >= look_up_before AND $1::uuid >= keys_before
      AND $1::uuid < ${lowestKeyAt('(extract(epoch FROM clock_timestamp()) * 1000 - $2::float8)::bigint')}
      AND ${ON_KNOWN_DATABASE}
      AND NOT EXISTS (
        SELECT FROM idempay.payments WHERE key = $1 AND ($3::text IS NULL OR client IS NULL OR client = $3))`,
};

/**
 * `mayBeLost`: true if a missing row of the key may have been lost. `isKnown`: true if this database was checked. Before the check, rows
 * may be lost that no column of the deployment tells of.
 */
export const MAY_BE_LOST: Statement = {
  name: 'may_be_lost',
  text: `SELECT ${mayBeLost('$1::uuid')} AS "mayBeLost", ${ON_KNOWN_DATABASE} AS "isKnown" FROM idempay.deployment`,
};

/** The mark of an epoch that was never sent, and whether it counts: what was lost since may have been sent. */
export const UNSENT_OF_NOW = `CASE WHEN generation = ${GENERATION} THEN unsent_epoch END`;

/** The same for a takeover: a mark since a loss counts only while the processor still has to know the charge of the lost row. */
const UNSENT_BEFORE = `CASE WHEN unsent_epoch > 0 OR (
        SELECT ${REFERENCES_ARE_LOOKED_UP} FROM idempay.deployment) THEN ${UNSENT_OF_NOW} END`;

/** A person has compared: what was lost before is no obstacle any more. */
export const ACCEPT_LOST_ROWS: Statement = {
  name: 'accept_lost_rows',
  text: 'UPDATE idempay.deployment SET processors_before_loss = NULL WHERE processors_before_loss IS NOT NULL',
};

/** With `$5`, a pending payment is taken over too. */
export const TAKE_OVER: Statement = {
  name: 'take_over',
  text: `
    UPDATE idempay.payments
    SET epoch = epoch + 1, owner = $2, lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond',
      recover_at = clock_timestamp() + $3::float8 * interval '1 millisecond',
      unsent_epoch = ${UNSENT_BEFORE}, generation = ${GENERATION}, events = ${eventsWithEpoch('taken over')}
    WHERE key = $1 AND ${UNDER_WAY} AND lease_until <= clock_timestamp() AND processor = ANY ($4::text[])
      AND (pending_until IS NULL OR $5::boolean)
      AND ${ON_KNOWN_DATABASE}
    RETURNING ${PAYMENT_COLUMNS}`,
  commitOf: takenOver,
};

/**
 * A takeover, pending or not, by a cancellation that ends the payment. `$6` restricts it to a payment for which surely nothing was ever
 * sent.
 */
export const BEGIN_ENDING: Statement = {
  name: 'begin_ending',
  text: `
    UPDATE idempay.payments
    SET epoch = epoch + 1, owner = $2, lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond',
      recover_at = clock_timestamp() + $3::float8 * interval '1 millisecond',
      ending = CASE WHEN ending = 'order' THEN ending ELSE $5::text END,
      unsent_epoch = ${UNSENT_BEFORE}, generation = ${GENERATION}, events = ${eventsWithEpoch('taken over')}
    WHERE key = $1 AND ${UNDER_WAY} AND processor = ANY ($4::text[]) AND lease_until <= clock_timestamp()
      AND (NOT $6::boolean OR ${UNSENT_OF_NOW} = epoch)
      AND ${ON_KNOWN_DATABASE}
    RETURNING ${PAYMENT_COLUMNS}`,
  commitOf: takenOver,
};

/** Both ends of what is due, so that neither the oldest nor the newest waits for all the others (see `recovery.ts`). */
export const TAKE_OVER_DUE: Readonly<Record<DueFirst, Statement>> = {
  'longest due': takeOverDue('take_over_longest_due', 'ASC'),
  'latest due': takeOverDue('take_over_latest_due', 'DESC'),
};

/** An array and not `IN`: a join could run the sub-select again for each row, and take more than its limit. */
function takeOverDue(name: string, order: 'ASC' | 'DESC'): Statement {
  return {
    name,
    text: `
    UPDATE idempay.payments
    SET epoch = epoch + 1, owner = $1, lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond',
      recover_at = clock_timestamp() + $2::float8 * interval '1 millisecond',
      unsent_epoch = ${UNSENT_BEFORE}, generation = ${GENERATION}, events = ${eventsWithEpoch('taken over')}
    WHERE key = ANY (ARRAY(
      SELECT key FROM idempay.payments
      WHERE ${DUE_WHILE} AND pending_until IS NULL AND processor = $3 AND recover_at <= now() AND lease_until <= clock_timestamp()
        AND ${ON_KNOWN_DATABASE}
      ORDER BY recover_at ${order} LIMIT $4
      FOR UPDATE SKIP LOCKED))
    RETURNING ${PAYMENT_COLUMNS}`,
    commitOf: takenOver,
  };
}

/** The shortest and the longest time until a pending payment is asked about again. In between, the time is a quarter of its age. */
const SHORTEST_QUESTION = "interval '5 seconds'";
const LONGEST_QUESTION = "interval '1 hour'";
/** The shortest time until the question at the expected end, if the end is nearer. */
const SOONEST_QUESTION = "interval '1 second'";

/** Moves the next question of each due payment, and returns these payments. `$1` is the processor, `$2` their number. */
export const DUE_PENDING: Statement = {
  name: 'due_pending',
  text: `
    UPDATE idempay.payments
    SET recover_at = least(
      clock_timestamp() + least(greatest((clock_timestamp() - claimed_at) / 4, ${SHORTEST_QUESTION}), ${LONGEST_QUESTION}),
      CASE WHEN pending_until > clock_timestamp() THEN greatest(pending_until, clock_timestamp() + ${SOONEST_QUESTION}) END)
    WHERE key = ANY (ARRAY(
      SELECT key FROM idempay.payments
      WHERE ${DUE_WHILE} AND pending_until IS NOT NULL AND processor = $1 AND recover_at <= now()
        AND lease_until <= clock_timestamp()
      ORDER BY recover_at LIMIT $2
      FOR UPDATE SKIP LOCKED))
    RETURNING ${PAYMENT_COLUMNS}`,
};

/** `$2` is the new end (ms). A question that was planned for after the new end is moved to the new end. */
export const MOVE_PENDING: Statement = {
  name: 'move_pending',
  text: `
    UPDATE idempay.payments
    SET pending_until = to_timestamp($2::float8 / 1000),
      recover_at = CASE WHEN to_timestamp($2::float8 / 1000) > clock_timestamp()
        THEN least(recover_at, greatest(to_timestamp($2::float8 / 1000), clock_timestamp() + ${SOONEST_QUESTION}))
        ELSE recover_at END
    WHERE key = $1 AND ${UNDER_WAY} AND pending_until IS NOT NULL`,
};

export const RENEW: Statement = {
  name: 'renew',
  text: `
    UPDATE idempay.payments payment
    SET lease_until = clock_timestamp() + fence.lease_ms * interval '1 millisecond',
      recover_at = clock_timestamp() + fence.lease_ms * interval '1 millisecond'
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::float8[]) AS fence (key, epoch, owner, lease_ms)
    WHERE ${keyIs('fence.key')} AND payment.epoch = fence.epoch AND payment.owner = fence.owner
      AND payment.${UNDER_WAY}
    RETURNING payment.key, payment.owner`,
};

/**
 * Removes the owner as well, so that a later renewal or settlement of the same attempt finds nothing. The lease ends at the
 * epoch and not now: a clock that is set back does not revive it.
 */
export const ABANDON: Statement = {
  name: 'abandon',
  text: `
    UPDATE idempay.payments payment
    SET owner = '', lease_until = to_timestamp(0),
      recover_at = clock_timestamp() + fence.recover_after_ms * interval '1 millisecond',
      unsent_epoch = fence.unsent_epoch,
      events = ${eventsWith('payment.epoch', 'fence.event')}
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::float8[], $5::integer[], $6::jsonb[])
      AS fence (key, epoch, owner, recover_after_ms, unsent_epoch, event)
    WHERE ${keyIs('fence.key')} AND payment.epoch = fence.epoch AND payment.owner = fence.owner
      AND payment.${UNDER_WAY}
    RETURNING fence.key, fence.owner`,
};

/** Ends the leases of payments that may have been sent, and are pending from now on, or are not ended after all. */
export const LEAVE: Statement = {
  name: 'leave',
  text: `
    UPDATE idempay.payments payment
    SET owner = '', lease_until = to_timestamp(0),
      recover_at = clock_timestamp() + leaving.recover_after_ms * interval '1 millisecond', unsent_epoch = NULL,
      pending_until = coalesce(to_timestamp(leaving.until_ms / 1000), pending_until),
      ending = CASE WHEN NOT leaving.clears_ending THEN ending END,
      processor_id = coalesce(leaving.id, processor_id), amount = coalesce(leaving.amount, payment.amount),
      currency = coalesce(leaving.currency, payment.currency), fingerprint = coalesce(leaving.fingerprint, payment.fingerprint),
      events = ${eventsWith('payment.epoch', 'leaving.event')}
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::float8[], $5::float8[], $6::boolean[], $7::text[], $8::jsonb[],
        $9::numeric[], $10::text[], $11::text[])
      AS leaving (key, epoch, owner, recover_after_ms, until_ms, clears_ending, id, event, amount, currency, fingerprint)
    WHERE ${keyIs('leaving.key')} AND payment.epoch = leaving.epoch AND payment.owner = leaving.owner
      AND payment.${UNDER_WAY}
    RETURNING leaving.key, leaving.owner`,
};

export const SETTLE: Statement = settleOf('settle', { arrays: '', columns: '', set: '' });

/** The same for a batch with at least one event. All other batches use the statement without events. */
export const SETTLE_NOTED: Statement = settleOf('settle_noted', {
  arrays: ', $8::jsonb[]',
  columns: ', event',
  set: `,
      events = CASE WHEN settled.event IS NULL THEN events ELSE ${eventsWith('payment.epoch', 'settled.event')} END`,
});

/** `more`: what the statement sends and sets besides. */
function settleOf(name: string, more: Readonly<Record<'arrays' | 'columns' | 'set', string>>): Statement {
  return {
    name,
    text: `
    UPDATE idempay.payments payment
    SET state = settled.state, reason = settled.reason, source = NULL, settled_at = clock_timestamp(), settled_hour = ${CURRENT_HOUR},
      expires_at = clock_timestamp() + settled.idempotency_ttl_ms * interval '1 millisecond',
      processor_id = coalesce(settled.charge_id, processor_id)${more.set}
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[]${more.arrays})
      AS settled (key, epoch, owner, state, reason, idempotency_ttl_ms, charge_id${more.columns})
    WHERE ${keyIs('settled.key')} AND payment.epoch = settled.epoch AND payment.owner = settled.owner
      AND payment.${UNDER_WAY}
    RETURNING payment.key, payment.epoch, payment.owner,
      floor(extract(epoch FROM payment.expires_at) * 1000)::float8 AS expires_at`,
    commitOf: settled,
  };
}

/**
 * The settlement of one payment whose row may be lost. $1 to $6 are as in `SETTLE`, $7 is the event, and $8 to $10 are amount, currency and
 * fingerprint of the charge. $11 says how the outcome is known, and is NULL if the processor said it. A resolution has an epoch of its own.
 * $12 is the processor's name of the charge, or NULL.
 */
export const SETTLE_AFTER_LOSS: Statement = {
  name: 'settle_after_loss',
  text: `
    UPDATE idempay.payments
    SET state = $4, reason = $5, source = NULL, settled_at = clock_timestamp(), settled_hour = ${CURRENT_HOUR},
      expires_at = clock_timestamp() + $6::float8 * interval '1 millisecond', events = ${eventsWith('epoch', '$7::jsonb')},
      amount = $8, currency = $9, fingerprint = $10, resolution = $11::text,
      epoch = CASE WHEN $11::text IS NULL THEN epoch ELSE epoch + 1 END, processor_id = coalesce($12::text, processor_id)
    WHERE key = $1 AND epoch = $2 AND owner = $3 AND ${UNDER_WAY}
    RETURNING key, epoch, owner, floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at`,
  commitOf: settled,
};

/** With one epoch more and an owner of its own, so that no earlier attempt can settle the payment. */
export const RESOLVED = `state = $3, reason = CASE WHEN $3 = 'DECLINED' THEN $4 END, resolution = $4, source = NULL, epoch = epoch + 1, owner = $2,
      settled_at = clock_timestamp(), settled_hour = ${CURRENT_HOUR}, events = ${eventsWithEpoch('resolved')},
      expires_at = clock_timestamp() + $6::float8 * interval '1 millisecond'`;

/** No attempt is at work on it, and it is old enough. */
export const IS_RESOLVABLE = `${UNDER_WAY} AND lease_until <= clock_timestamp()
      AND CASE WHEN pending_until IS NULL OR ${UNSENT_OF_NOW} = 0
        THEN claimed_at <= clock_timestamp()
          - CASE WHEN ${UNSENT_OF_NOW} = epoch THEN $6::float8 WHEN ${UNSENT_OF_NOW} = 0 THEN 0 ELSE $5::float8 END * interval '1 millisecond'
        ELSE least(pending_until + ${RESOLVABLE_AFTER_UNTIL_MS} * interval '1 millisecond',
          claimed_at + ${RESOLVABLE_AFTER_CLAIM_MS} * interval '1 millisecond') <= clock_timestamp() END`;

export const RESOLVE: Statement = {
  name: 'resolve',
  text: `
    UPDATE idempay.payments
    SET ${RESOLVED}
    WHERE key = $1 AND ${IS_RESOLVABLE}
    RETURNING ${PAYMENT_COLUMNS}`,
  commitOf: settled,
};

/** Payments that are PROCESSING and not pending, oldest first, up to a limit: the cost of a count must not grow with their number. */
const oldestUnderWay = (limit: string) => `(
      SELECT epoch, unsent_epoch, generation, lease_until, claimed_at FROM idempay.payments
      WHERE state = 'PROCESSING' AND pending_until IS NULL ORDER BY transaction_id LIMIT ${limit}) AS oldest`;

export const COUNT_ABANDONED: Statement = {
  name: 'count_abandoned',
  text: `
    SELECT count(*)::float8 AS abandoned FROM ${oldestUnderWay('$3')}
    WHERE (lease_until <= clock_timestamp() OR epoch > 1)
      AND claimed_at < clock_timestamp()
        - CASE WHEN ${UNSENT_OF_NOW} = epoch THEN $2::float8 WHEN ${UNSENT_OF_NOW} = 0 THEN 0 ELSE $1::float8 END * interval '1 millisecond'`,
};

export const BACKLOG: Statement = {
  name: 'backlog',
  text: `
    SELECT count(*)::float8 AS payments,
      coalesce(extract(epoch FROM clock_timestamp() - min(claimed_at)) * 1000, 0)::float8 AS oldest_ms
    FROM ${oldestUnderWay('$1')} WHERE lease_until <= clock_timestamp()`,
};

export const PENDING_BACKLOG: Statement = {
  name: 'pending_backlog',
  text: `
    SELECT count(*)::float8 AS payments,
      coalesce(extract(epoch FROM clock_timestamp() - min(claimed_at)) * 1000, 0)::float8 AS oldest_ms,
      (count(*) FILTER (WHERE pending_until < clock_timestamp()))::float8 AS past_until
    FROM (
      SELECT claimed_at, pending_until FROM idempay.payments
      WHERE state = 'PROCESSING' AND pending_until IS NOT NULL ORDER BY transaction_id LIMIT $1) AS oldest`,
};
