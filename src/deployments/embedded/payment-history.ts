import type { PaymentHistory, PaymentRecord } from '../../payments/payment-history.js';
import { keyRangeOf, pageOf, startOf } from '../history-pages.js';
import { type HistoryRow, recordOf } from '../history-row.js';
import type { PreparedRead, Reader } from './reader.js';

const COLUMNS =
  'key, state, transaction_id, amount, currency, processor, epoch, claimed_at, settled_at, reason, resolution';

const FIND = `SELECT ${COLUMNS} FROM payments WHERE key = ?`;

const SETTLED = `
  SELECT ${COLUMNS} FROM payments
  WHERE (settled_at, key) > (?, ?) AND settled_at >= ? AND settled_at < ?
  ORDER BY settled_at, key LIMIT ?`;

/** Times are kept in milliseconds. */
const UNITS_PER_MS = 1;

/** Reads on the main thread: pages are short, and each comes from an index or the table in its own order. */
export function createEmbeddedPaymentHistory(reader: Reader): PaymentHistory {
  const find = reader.prepare(FIND);
  const settled = reader.prepare(SETTLED);
  const newest: Record<PaymentRecord['state'] | 'any', PreparedRead> = {
    any: reader.prepare(newestWhere('')),
    PROCESSING: reader.prepare(newestWhere("AND state = 'PROCESSING'")),
    COMPLETED: reader.prepare(newestWhere("AND state = 'COMPLETED'")),
    DECLINED: reader.prepare(newestWhere("AND state = 'DECLINED'")),
  };

  return {
    async find(key) {
      const row = find.get(key) as HistoryRow | undefined;
      return row && recordOf(row);
    },

    async newest(selection) {
      const { from, below } = keyRangeOf(selection);
      const rows = newest[selection.state ?? 'any'].all(from, below, selection.limit) as HistoryRow[];
      return rows.map(recordOf);
    },

    async settled(period) {
      const { from, to, limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const rows = settled.all(start.settledAt, start.key, from, to, limit + 1) as HistoryRow[];
      return pageOf(rows, limit, (row) => row.settled_at ?? 0);
    },
  };
}

/** The state is a constant and not a parameter, so that its partial index is seen to hold the rows. */
function newestWhere(condition: string): string {
  return `SELECT ${COLUMNS} FROM payments WHERE key >= ? AND key < ? ${condition} ORDER BY key DESC LIMIT ?`;
}
