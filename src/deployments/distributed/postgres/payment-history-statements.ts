import type { PaymentRecord } from '../../../payments/ports/payment-history.js';
import type { Statement } from './postgres.js';

const COLUMNS = `
  key, state, transaction_id, amount::text AS amount, currency, client, processor, epoch, reason, resolution,
  floor(extract(epoch FROM claimed_at) * 1000)::float8 AS claimed_at,
  floor(extract(epoch FROM settled_at) * 1000)::float8 AS settled_at,
  floor(extract(epoch FROM settled_at) * 1000000)::float8 AS settled_at_us`;

export const FIND: Statement = {
  name: 'find_record',
  text: `SELECT ${COLUMNS} FROM idempay.payments WHERE key = $1`,
};

const RANGE = 'key >= $1 AND key < $2';
/** What one client sees of its own: found by the index of its keys, whatever their state. */
const OF_CLIENT = `${RANGE} AND client = $4 AND ($5::text IS NULL OR state = $5)`;

/** A statement for each state, so that a plan that is kept can use the partial index of that state. */
export const NEWEST: Record<PaymentRecord['state'] | 'any' | 'ofClient', Statement> = {
  any: newestOf('newest_payments', RANGE),
  COMPLETED: newestOf('newest_completed', `${RANGE} AND state = 'COMPLETED'`),
  DECLINED: newestOf('newest_declined', `${RANGE} AND state = 'DECLINED'`),
  ofClient: newestOf('newest_of_client', OF_CLIENT),
  /** Sorts what is under way, which is little. In the order of the keys it could mean to read all that are not. */
  PROCESSING: {
    name: 'newest_processing',
    text: `
      WITH under_way AS MATERIALIZED (SELECT * FROM idempay.payments WHERE state = 'PROCESSING')
      SELECT ${COLUMNS} FROM under_way WHERE ${RANGE} ORDER BY key DESC LIMIT $3`,
  },
};

function newestOf(name: string, condition: string): Statement {
  return { name, text: `SELECT ${COLUMNS} FROM idempay.payments WHERE ${condition} ORDER BY key DESC LIMIT $3` };
}

/** By the table's `settled_at` and not the output's, a float8 that no index is ordered by; to the microsecond. */
export const SETTLED: Statement = {
  name: 'settled_payments',
  text: `
    SELECT ${COLUMNS} FROM idempay.payments
    WHERE (payments.settled_at, key) > ('epoch'::timestamptz + $1::float8 * interval '1 microsecond', $2)
      AND payments.settled_at >= 'epoch'::timestamptz + $3::float8 * interval '1 millisecond'
      AND payments.settled_at < 'epoch'::timestamptz + $4::float8 * interval '1 millisecond'
    ORDER BY payments.settled_at, key LIMIT $5`,
};
