import type { PaymentHistory } from '../../../payments/ports/payment-history.js';
import { keyRangeOf, pageOf, startOf } from '../../history-pages.js';
import { type HistoryRow, recordOf } from '../../rows.js';
import type { ConfirmDurable } from './durability.js';
import * as statements from './payment-history-statements.js';
import type { Postgres } from './postgres.js';

interface Row extends HistoryRow {
  /** To the microsecond: two payments that were settled in one millisecond still have an order. */
  readonly settled_at_us: number | null;
}

const UNITS_PER_MS = 1_000;

/** Rows are returned only when they are durable; `newest` does not wait for that. */
export function createPostgresPaymentHistory(database: Postgres, confirmDurable: ConfirmDurable): PaymentHistory {
  return {
    async find(key) {
      const [row] = await database.read<Row>(statements.FIND, [key]);
      if (row && row.state !== 'PROCESSING') await confirmDurable();
      return row && recordOf(row);
    },

    async newest(selection) {
      const { from, below } = keyRangeOf(selection);
      const { state, client, limit } = selection;
      const rows = await (client === undefined
        ? database.read<Row>(statements.NEWEST[state ?? 'any'], [from, below, limit])
        : database.read<Row>(statements.NEWEST.ofClient, [from, below, limit, client, state ?? null]));
      return rows.map(recordOf);
    },

    async settled(period) {
      const { from, to, limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const rows = await database.read<Row>(statements.SETTLED, [start.settledAt, start.key, from, to, limit + 1]);
      if (rows.length > 0) await confirmDurable();
      return pageOf(rows, limit, (row) => row.settled_at_us ?? 0);
    },
  };
}
