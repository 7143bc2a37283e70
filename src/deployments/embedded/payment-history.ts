import type { PaymentHistory } from '../../payments/ports/payment-history.js';
import { keyRangeOf, pageOf, startOf } from '../history-pages.js';
import { type HistoryRow, recordOf } from '../rows.js';
import * as statements from './payment-history-statements.js';
import type { Reader } from './reader.js';

/** Times are kept in milliseconds. */
const UNITS_PER_MS = 1;

/** Reads on the main thread: pages are short, and each comes from an index or the table in its own order. */
export function createEmbeddedPaymentHistory(reader: Reader): PaymentHistory {
  const find = reader.prepare(statements.FIND);
  const settled = reader.prepare(statements.SETTLED);
  const newest = {
    any: reader.prepare(statements.NEWEST.any),
    PROCESSING: reader.prepare(statements.NEWEST.PROCESSING),
    COMPLETED: reader.prepare(statements.NEWEST.COMPLETED),
    DECLINED: reader.prepare(statements.NEWEST.DECLINED),
    ofClient: reader.prepare(statements.NEWEST.ofClient),
  };

  return {
    async find(key) {
      const row = find.get(key) as HistoryRow | undefined;
      return row && recordOf(row);
    },

    async newest(selection) {
      const { from, below } = keyRangeOf(selection);
      const { state, client, limit } = selection;
      const rows =
        client === undefined
          ? newest[state ?? 'any'].all(from, below, limit)
          : newest.ofClient.all(client, state ?? '', from, below, limit);
      return (rows as HistoryRow[]).map(recordOf);
    },

    async settled(period) {
      const { from, to, limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const rows = settled.all(start.settledAt, start.key, from, to, limit + 1) as HistoryRow[];
      return pageOf(rows, limit, (row) => row.settled_at ?? 0);
    },
  };
}
