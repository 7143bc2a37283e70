import {
  type ClaimedPayment,
  MOST_LOOKED_AT,
  MOST_REFUNDS,
  type PaymentHistory,
} from '../../../payments/ports/payment-history.js';
import {
  type CountedRow,
  countsOf,
  type NewestReads,
  newestPage,
  type PaidRow,
  paidCountsOf,
  settledPageOf,
  startOf,
  valuesOf,
} from '../../shared/payment-history.js';
import { type HistoryRow, type LifeRow, lifeOf, recordOf } from '../../shared/payment-rows.js';
import type { Permits } from '../../shared/permits.js';
import type { ConfirmDurable } from '../connection/durability.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import * as statements from './payment-history-statements.js';

interface Row extends HistoryRow {
  /** To the microsecond: two payments that were settled in one millisecond still have an order. */
  readonly settled_at_us: number | null;
}

const UNITS_PER_MS = 1_000;

/** Rows are returned only when they are durable; `newest` does not wait for that. */
export function createPostgresPaymentHistory(
  database: PostgresPart,
  confirmDurable: ConfirmDurable,
  permits: Permits,
): PaymentHistory {
  async function nthIdIn(statement: Statement, values: (string | number | null)[]): Promise<string | undefined> {
    const [nth] = await database.read<Pick<Row, 'transaction_id'>>(statement, values);
    return nth?.transaction_id;
  }

  const newestReads: NewestReads = {
    async countKeys({ first, last }, atMost) {
      const [counted] = await database.read<{ keys: number }>(statements.COUNT_KEYS, [first, last, atMost]);
      return counted?.keys ?? 0;
    },
    ofKeys: (query) => database.read<Row>(statements.OF_KEYS, valuesOf(query)),
    ofReference: (query) => database.read<Row>(statements.OF_REFERENCE, [...valuesOf(query), query.reference]),
    ofReferenceWithRefunds: (query) =>
      database.read<Row>(statements.OF_REFERENCE_WITH_REFUNDS, [...valuesOf(query), query.reference]),
    nthRefundIdOfReference: ({ from, below, reference }, n) =>
      nthIdIn(statements.NTH_REFUND_ID_OF_REFERENCE, [from, below, n, reference]),
    page: (query) => database.read<Row>(statements.NEWEST[query.source], valuesOf(query)),
    nthId: ({ source, from, below, client }, n) =>
      nthIdIn(statements.NTH_ID[source], [from, below, n, ...(source === 'ofClient' ? [client] : [])]),
  };

  return {
    async find(key) {
      const [row] = await database.read<Row>(statements.FIND, [key]);
      if (row && row.state !== 'PROCESSING') await confirmDurable();
      return row && recordOf(row);
    },

    async findLife(key) {
      const [row] = await database.read<LifeRow>(statements.FIND_LIFE, [key]);
      if (row && row.state !== 'PROCESSING') await confirmDurable();
      return row && lifeOf(row);
    },

    async refundsOf(payment) {
      const rows = await database.read<Row>(statements.REFUNDS_OF, [payment, MOST_REFUNDS]);
      if (rows.some(({ state }) => state !== 'PROCESSING')) await confirmDurable();
      return rows.map((row) => recordOf(row) as ClaimedPayment);
    },

    async newestAttempt(reference, client) {
      const [row] = await database.read<Row>(statements.NEWEST_ATTEMPT, [reference, client ?? null]);
      if (row && row.state !== 'PROCESSING') await confirmDurable();
      return row && recordOf(row);
    },

    newest: (selection, readLimit) =>
      permits.during(selection.reader, () => newestPage(selection, readLimit, newestReads)),

    async settled(period) {
      const { from, to, kind, limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const statement = kind === 'refund' ? statements.SETTLED_REFUNDS : statements.SETTLED;
      const values = [start.settledAt, start.key, from, to, limit + 1];
      const rows = await permits.during(period.reader, () => database.read<Row>(statement, values));
      if (rows.length > 0) await confirmDurable();
      return settledPageOf(rows, period, (row) => row.settled_at_us ?? 0);
    },

    async countSettled(period) {
      const { from, to, kind = 'payment', limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const statement = kind === 'refund' ? statements.COUNT_SETTLED_REFUNDS : statements.COUNT_SETTLED;
      const values = [start.settledAt, start.key, from, to, limit, kind !== 'payment'];
      const [counted] = await database.read<CountedRow>(statement, values);
      return countsOf(counted, limit);
    },

    countPaid: async () => paidCountsOf(await database.read<PaidRow>(statements.COUNT_PAID, [MOST_LOOKED_AT])),
  };
}
