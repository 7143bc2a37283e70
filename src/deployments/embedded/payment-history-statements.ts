import type { PaymentRecord } from '../../payments/payment-history.js';

const COLUMNS =
  'key, state, transaction_id, amount, currency, processor, epoch, claimed_at, settled_at, reason, resolution';

export const FIND = `SELECT ${COLUMNS} FROM payments WHERE key = ?`;

/** The state is a constant and not a parameter, so that its partial index is seen to hold the rows. */
export const NEWEST: Record<PaymentRecord['state'] | 'any', string> = {
  any: newestWhere(''),
  PROCESSING: newestWhere("AND state = 'PROCESSING'"),
  COMPLETED: newestWhere("AND state = 'COMPLETED'"),
  DECLINED: newestWhere("AND state = 'DECLINED'"),
};

function newestWhere(condition: string): string {
  return `SELECT ${COLUMNS} FROM payments WHERE key >= ? AND key < ? ${condition} ORDER BY key DESC LIMIT ?`;
}

export const SETTLED = `
  SELECT ${COLUMNS} FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at >= ? AND settled_at < ?
  ORDER BY settled_at, key LIMIT ?`;
