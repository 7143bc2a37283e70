import type { PaymentRecord } from '../../payments/ports/payment-history.js';

const COLUMNS =
  'key, state, transaction_id, amount, currency, client, processor, epoch, claimed_at, settled_at, reason, resolution';

export const FIND = `SELECT ${COLUMNS} FROM payments WHERE key = ?`;

const NEWEST_IN_RANGE = 'key >= ? AND key < ? ORDER BY key DESC LIMIT ?';

/** The state is a constant and not a parameter, so that its partial index is seen to hold the rows. */
export const NEWEST: Record<PaymentRecord['state'] | 'any' | 'ofClient', string> = {
  any: `SELECT ${COLUMNS} FROM payments WHERE ${NEWEST_IN_RANGE}`,
  COMPLETED: `SELECT ${COLUMNS} FROM payments WHERE state = 'COMPLETED' AND ${NEWEST_IN_RANGE}`,
  DECLINED: `SELECT ${COLUMNS} FROM payments WHERE state = 'DECLINED' AND ${NEWEST_IN_RANGE}`,
  /** What one client sees of its own: found by the index of its keys, whatever their state. */
  ofClient: `SELECT ${COLUMNS} FROM payments WHERE client = ?1 AND (?2 = '' OR state = ?2) AND key >= ?3 AND key < ?4 ORDER BY key DESC LIMIT ?5`,
  /** Sorts what is under way, which is little. In the order of the keys it could mean to read all that are not. */
  PROCESSING: `
    SELECT ${COLUMNS} FROM payments WHERE key IN (
      SELECT key FROM payments INDEXED BY payments_under_way WHERE state = 'PROCESSING' AND ${NEWEST_IN_RANGE})
    ORDER BY key DESC`,
};

export const SETTLED = `
  SELECT ${COLUMNS} FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at >= ? AND settled_at < ?
  ORDER BY settled_at, key LIMIT ?`;
