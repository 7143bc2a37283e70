import { type DueFirst, RESOLVABLE_AFTER_CLAIM_MS, RESOLVABLE_AFTER_UNTIL_MS } from '../../../payments/ports/ledger.js';

/** How many events a row keeps, the first ones and the last (`payment-rows.ts`). */
const FIRST_EVENTS = 8;
const MOST_EVENTS = 48;

export const INSERT_CLAIM = `
  INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, client, processor, epoch, owner, lease_until, recover_at, claimed_at,
    claimed_at_wall, state, reason, expires_at, settled_at, settled_hour, reference, attempt, content)
  VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key) DO NOTHING`;

/** Marks a row that the same commit inserted. */
export const SET_CLAIMED_AFTER_LOSS = 'UPDATE payments SET claimed_after_loss = 1 WHERE key = ?';

export const SET_RESOLUTION = 'UPDATE payments SET resolution = ? WHERE key = ?';

/** The losses that adoptions noted; they change at a start only. */
export const LOSSES =
  'SELECT look_up_before, look_up_references_until, adopted_at, lost_ms, processors_before_loss FROM deployment';

export const ACCEPT_LOST_ROWS = 'UPDATE deployment SET processors_before_loss = NULL';

export const SEEN_MS = 'SELECT max(until_ms) AS ms FROM retention_hours';

/** How long ago an hour of retention ended, by its time; no row if it was forgotten, because it is too long ago. */
export const HOUR_AGE = `
  SELECT (SELECT max(until_ms) FROM retention_hours) - until_ms
    + (SELECT coalesce(sum(unseen_ms), 0) FROM retention_hours AS younger WHERE younger.hour > old.hour AND confirmed) AS ms
  FROM retention_hours AS old WHERE hour = ?`;

export const FIND = 'SELECT * FROM payments WHERE key = ?';

/** Makes room for one event more: of a full list the first of the last events goes, and the element between is one higher. */
const EVENTS_WITH_ROOM = `CASE
    WHEN events IS NULL THEN '[]'
    WHEN json_array_length(events) < ${MOST_EVENTS} THEN events
    WHEN json_array_length(events) = ${MOST_EVENTS} THEN json_set(events, '$[${FIRST_EVENTS}]', json('{"omitted":1}'))
    ELSE json_set(json_remove(events, '$[${FIRST_EVENTS + 1}]'), '$[${FIRST_EVENTS}].omitted',
      json_extract(events, '$[${FIRST_EVENTS}].omitted') + 1)
  END`;

/** `event`: the members besides the time and the epoch; those that are null are left out. The time would be bound as a float. */
const eventsWith = (epoch: string, event: string) => `json_insert(${EVENTS_WITH_ROOM}, '$[#]',
    json_patch(json_object('at', CAST(? AS INTEGER), 'execution', ${epoch}), ${event}))`;

/** An epoch that begins now, with the owner that is overwritten; '' if it was given up. */
const eventsWithEpoch = (kind: 'taken over' | 'resolved') =>
  eventsWith('epoch + 1', `json_object('kind', '${kind}', 'from', nullif(owner, ''))`);

export const TAKE_OVER = `
  UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?, recover_at = ?, events = ${eventsWithEpoch('taken over')}
  WHERE key = ? AND state = 'PROCESSING' AND (pending_until IS NULL OR ?)
    AND lease_until <= ? AND processor IN (SELECT value FROM json_each(?))
  RETURNING *`;

/**
 * A takeover, pending or not, by a cancellation that ends the payment. The last parameter restricts it to a payment for which surely
 * nothing was ever sent.
 */
export const BEGIN_ENDING = `
  UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?, recover_at = ?, events = ${eventsWithEpoch('taken over')},
    ending = CASE WHEN ending = 'order' THEN ending ELSE ? END
  WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ? AND processor IN (SELECT value FROM json_each(?))
    AND (unsent_epoch = epoch OR NOT ?)
  RETURNING *`;

/** Both ends of what is due, so that neither the oldest nor the newest waits for all the others. */
export const TAKE_OVER_DUE: Readonly<Record<DueFirst, string>> = {
  'longest due': takeOverDueBy('ASC'),
  'latest due': takeOverDueBy('DESC'),
};

function takeOverDueBy(order: 'ASC' | 'DESC'): string {
  return `
    UPDATE payments SET epoch = epoch + 1, owner = ?, lease_until = ?, recover_at = ?, events = ${eventsWithEpoch('taken over')}
    WHERE key IN (
      SELECT key FROM payments
      WHERE state = 'PROCESSING' AND pending_until IS NULL AND processor = ? AND recover_at <= ? AND lease_until <= ?
      ORDER BY recover_at ${order} LIMIT ?)
    RETURNING *`;
}

/** The shortest and the longest time until a pending payment is asked about again. In between, the time is a quarter of its age. */
const SHORTEST_QUESTION_MS = 5_000;
const LONGEST_QUESTION_MS = 3_600_000;
/** The shortest time until the question at the expected end, if the end is nearer. */
const SOONEST_QUESTION_MS = 1_000;

/** Moves the next question of each due payment, and returns these payments. `?1` is the time, `?2` the processor, `?3` their number. */
export const DUE_PENDING = `
  UPDATE payments SET recover_at = CAST(min(
    ?1 + min(max((?1 - claimed_at) / 4, ${SHORTEST_QUESTION_MS}), ${LONGEST_QUESTION_MS}),
    CASE WHEN pending_until > ?1 THEN max(pending_until, ?1 + ${SOONEST_QUESTION_MS}) ELSE ?1 + ${LONGEST_QUESTION_MS} END) AS INTEGER)
  WHERE key IN (
    SELECT key FROM payments
    WHERE state = 'PROCESSING' AND pending_until IS NOT NULL AND processor = ?2 AND recover_at <= ?1 AND lease_until <= ?1
    ORDER BY recover_at LIMIT ?3)
  RETURNING *`;

/** `?1` is the time, `?2` the new end, `?3` the key. A question that was planned for after the new end is moved to the new end. */
export const MOVE_PENDING = `
  UPDATE payments SET pending_until = ?2,
    recover_at = CASE WHEN ?2 > ?1 THEN min(recover_at, max(?2, ?1 + ${SOONEST_QUESTION_MS})) ELSE recover_at END
  WHERE key = ?3 AND state = 'PROCESSING' AND pending_until IS NOT NULL`;

export const SET_LEASE = `
  UPDATE payments SET lease_until = ?, recover_at = ?
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

/**
 * Clears the owner as well, so that later writes of the same attempt change nothing. The lease ends at 0 and not now, so that
 * a clock that is set back does not revive it.
 */
export const ABANDON = `
  UPDATE payments SET owner = '', lease_until = 0, recover_at = ?, unsent_epoch = ?, events = ${eventsWith('epoch', '?')}
  WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;

/** Ends the lease of a payment that may have been sent, and is pending from now on, or is not ended after all. */
export const LEAVE = `
  UPDATE payments SET owner = '', lease_until = 0, recover_at = ?, unsent_epoch = NULL, pending_until = coalesce(?, pending_until),
    ending = CASE WHEN ? THEN NULL ELSE ending END, processor_id = coalesce(?, processor_id),
    amount = coalesce(?, amount), currency = coalesce(?, currency), fingerprint = coalesce(?, fingerprint), events = ${eventsWith('epoch', '?')}
  WHERE key = ? AND owner = ? AND epoch = ? AND state = 'PROCESSING'`;

export const SETTLE = settleAnd('');
/** The same with an event for the timeline. */
export const SETTLE_NOTED = settleAnd(`, events = ${eventsWith('epoch', '?')}`);

/** The settlement of a payment whose row may be lost: with what was charged, and how that is known. A resolution has an epoch of its own. */
export const SETTLE_AFTER_LOSS =
  settleAnd(`, events = ${eventsWith('epoch', '?')}, amount = ?, currency = ?, fingerprint = ?, resolution = ?,
      epoch = CASE WHEN ? IS NULL THEN epoch ELSE epoch + 1 END`);

function settleAnd(set: string): string {
  return `
    UPDATE payments SET state = ?, reason = ?, expires_at = ?, settled_at = ?, settled_hour = ?, processor_id = coalesce(?, processor_id)${set}
    WHERE key = ? AND epoch = ? AND owner = ? AND state = 'PROCESSING'`;
}

/** With one epoch more and an owner of its own, so that no earlier attempt can settle the payment. */
export const RESOLVE = `
  UPDATE payments
  SET state = ?, reason = ?, resolution = ?, expires_at = ?, settled_at = ?, settled_hour = ?, epoch = epoch + 1, owner = ?,
    events = ${eventsWithEpoch('resolved')}
  WHERE key = ? AND state = 'PROCESSING' AND lease_until <= ?
    AND CASE WHEN pending_until IS NULL OR unsent_epoch = 0
      THEN claimed_at <= CASE WHEN unsent_epoch = epoch THEN ? WHEN unsent_epoch = 0 THEN claimed_at ELSE ? END
        OR claimed_at_wall <= CASE WHEN unsent_epoch = epoch THEN ? WHEN unsent_epoch = 0 THEN claimed_at_wall ELSE ? END
      ELSE min(pending_until + ${RESOLVABLE_AFTER_UNTIL_MS}, claimed_at + ${RESOLVABLE_AFTER_CLAIM_MS}) <= ?
        OR min(pending_until + ${RESOLVABLE_AFTER_UNTIL_MS}, claimed_at_wall + ${RESOLVABLE_AFTER_CLAIM_MS}) <= ? END
  RETURNING *`;

/** Only this process can hold leases in this folder, so at its start every claim is abandoned and due for recovery. */
export const END_ALL_LEASES = `
  UPDATE payments SET lease_until = min(lease_until, $now), recover_at = min(recover_at, $now)
  WHERE state = 'PROCESSING' AND pending_until IS NULL`;

/**
 * Ends the leases of pending payments, of which few have one. The time of their next question stays, because a start would otherwise ask
 * about all at once.
 */
export const END_PENDING_LEASES = `
  UPDATE payments SET lease_until = 0
  WHERE state = 'PROCESSING' AND pending_until IS NOT NULL AND lease_until > 0`;
