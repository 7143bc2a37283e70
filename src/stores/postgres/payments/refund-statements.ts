import { ON_KNOWN_DATABASE } from '../connection/database-identity-statements.js';
import type { Statement } from '../connection/postgres.js';
import { ENDS_IN_TIME } from '../connection/session.js';
import {
  ageOfHour,
  eventsWith,
  IS_RESOLVABLE,
  REFERENCES_ARE_LOOKED_UP,
  RESOLVED,
  settled,
  UNDER_WAY,
} from './ledger-statements.js';
import { PAYMENT_COLUMNS } from './payment-row.js';
import { CURRENT_HOUR } from './retention-statements.js';

/**
 * Each statement of refunds changes two rows in one commit, and waits for the payment's row before it waits for the refund's: so claims, ends
 * and verdicts of one payment's refunds come one after the other, and no two of them deadlock. They are never part of a batch, which locks
 * rows in the order of their keys. Retention skips rows that are locked. `LastCommits` remembers the refund's row: a database that has it
 * also has the sum, which is of the same commit.
 */

/** The payment is what the attempt says: its amount, its currency, and its processor or a former name of it. */
const isRefundable = (charged: string, currency: string, processors: string) =>
  `payment.state = 'COMPLETED' AND payment.refund_of IS NULL AND payment.amount = ${charged}::numeric
        AND payment.currency = ${currency}::text AND payment.processor = ANY (${processors}::text[])`;

/** Its row will not be removed soon. It is as old as its settlement, by the time of retention. */
const isInTime = (lateMs: string) => `(${lateMs}::float8 IS NULL OR ${ageOfHour('payment')} < ${lateMs}::float8)`;

/**
 * Raises the sum of the payment, and inserts the refund's row from the row that it raised. $1 to $9 are key, transaction id, amount, currency,
 * fingerprint, processor, owner, lease (ms) and the last moment (ms) of the refund; $10 to $14 are the payment's key, the name, the reason,
 * the processor's name of the charge, and the amount in minor units. $15 and $16 are the amount of the payment, also in minor units, $17 the
 * processors whose payments are refunded, and $18 is the age that is too late.
 *
 * An update that waited for another one is judged by what that one wrote, also by the clock. A second claim of the name fails as a whole on the
 * primary key: its raise is rolled back.
 */
export const CLAIM_REFUND: Statement = {
  name: 'claim_refund',
  text: `
    WITH raised AS (
      UPDATE idempay.payments AS payment SET refunded = coalesce(payment.refunded, 0) + $14::bigint
      WHERE payment.key = $10::uuid AND ${isRefundable('$15', '$4', '$17')}
        AND coalesce(payment.refunded, 0) + $14::bigint <= $16::bigint
        AND ${isInTime('$18')}
        AND clock_timestamp() <= to_timestamp($9::float8 / 1000)
        AND $6::text = ANY ((SELECT processors FROM idempay.deployment)::text[])
        AND ${ENDS_IN_TIME}
        AND ${ON_KNOWN_DATABASE}
      RETURNING payment.key, payment.client
    )
    INSERT INTO idempay.payments
      (key, transaction_id, amount, currency, fingerprint, client, processor, state, epoch, owner, lease_until, recover_at, claimed_at,
        generation, claimed_after_loss, refund_of, refund_name, refund_reason, refund_charge_id, refund_units)
    SELECT $1::uuid, $2::text, $3::numeric, $4::text, $5::text, raised.client, $6::text, 'PROCESSING', 1, $7::text,
      at + $8::float8 * interval '1 millisecond', at + $8::float8 * interval '1 millisecond', at, generation,
      CASE WHEN ${REFERENCES_ARE_LOOKED_UP} THEN true END, raised.key, $11::text, $12::text, $13::text, $14::bigint
    FROM raised, idempay.deployment, LATERAL (SELECT clock_timestamp() AS at) AS now
    RETURNING key, client, claimed_after_loss`,
  commitOf: ([row]) => row && { key: row.key, epoch: 1, settled: false },
};

/** Why a refund was not inserted: the payment, and how much of it is left. $1 to $6 are $10, $15, $4, $17, $18 and $16 of the claim. */
export const EXPLAIN_REFUND: Statement = {
  name: 'explain_refund',
  text: `
    SELECT coalesce(${isInTime('$5')}, false) AS "inTime", ($6::bigint - coalesce(payment.refunded, 0))::float8 AS "leftUnits"
    FROM idempay.payments AS payment WHERE payment.key = $1::uuid AND ${isRefundable('$2', '$3', '$4')}`,
};

interface RefundEnd {
  readonly set: string;
  /** The key of the payment. */
  readonly payment: string;
  /** True if the end changes the sum of the payment: then the payment is locked before the refund. */
  readonly changesSum: string;
  /** The change of the sum, by the row `ended`. */
  readonly change: string;
  /** The refund, and the conditions of its end, which are judged again on what another end wrote meanwhile. */
  readonly isEnded: string;
}

function endOf({ set, payment, changesSum, change, isEnded }: RefundEnd): string {
  return `
    WITH locked AS MATERIALIZED (
      SELECT key FROM idempay.payments WHERE key = ${payment}::uuid AND ${changesSum} FOR NO KEY UPDATE
    ), ended AS (
      UPDATE idempay.payments SET ${set}
      WHERE ${isEnded} AND (SELECT count(*) FROM locked) >= 0
      RETURNING *
    ), changed AS (
      UPDATE idempay.payments AS payment SET refunded = payment.refunded + ${change}
      FROM ended WHERE payment.key = ended.refund_of AND ${changesSum}
    )`;
}

/** A decline lowers the sum by the amount of the row that it has changed. */
const loweredIfDeclined = (state: string) => ({
  changesSum: `${state}::text = 'DECLINED'`,
  change: '- ended.refund_units',
});

const SETTLED = `state = $4::text, reason = $5::text, settled_at = clock_timestamp(), settled_hour = ${CURRENT_HOUR},
        expires_at = clock_timestamp() + $6::float8 * interval '1 millisecond', processor_id = coalesce($7::text, processor_id),
        events = CASE WHEN $8::jsonb IS NULL THEN events ELSE ${eventsWith('epoch', '$8::jsonb')} END`;
const IS_OURS = `key = $1::uuid AND epoch = $2::integer AND owner = $3::text AND ${UNDER_WAY}`;
const SETTLED_END =
  'SELECT key, epoch, owner, floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at FROM ended';

/** $1 to $6 are as in `SETTLE`, $7 is the processor's name of the refund, $8 the event or NULL, $9 the payment's key. */
export const SETTLE_REFUND: Statement = {
  name: 'settle_refund',
  text: `${endOf({ set: SETTLED, payment: '$9', ...loweredIfDeclined('$4'), isEnded: IS_OURS })}
    ${SETTLED_END}`,
  commitOf: settled,
};

/**
 * The same for a refund that may have been made with another amount than its row has, because an earlier row of it was lost: $10, $11 and
 * $12 are that amount, its fingerprint, and the amount in minor units. The subselect reads the row as it was before this statement.
 */
export const SETTLE_REFUND_AFTER_LOSS: Statement = {
  name: 'settle_refund_after_loss',
  text: `${endOf({
    set: `${SETTLED}, amount = $10::numeric, fingerprint = $11::text, refund_units = $12::bigint`,
    payment: '$9',
    changesSum: 'true',
    change: `CASE WHEN ended.state = 'DECLINED' THEN 0 ELSE ended.refund_units END
        - (SELECT refund_units FROM idempay.payments WHERE key = $1::uuid)`,
    isEnded: IS_OURS,
  })}
    ${SETTLED_END}`,
  commitOf: settled,
};

/** As `RESOLVE`, of which it has the parameters. $7 is the payment's key. */
export const RESOLVE_REFUND: Statement = {
  name: 'resolve_refund',
  text: `${endOf({ set: RESOLVED, payment: '$7', ...loweredIfDeclined('$3'), isEnded: `key = $1 AND ${IS_RESOLVABLE}` })}
    SELECT ${PAYMENT_COLUMNS} FROM ended`,
  commitOf: settled,
};
