import { type ClaimedPayment, MOST_LOOKED_AT, type PaymentHistory } from '../../../payments/ports/payment-history.js';
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
import type { PreparedRead, Reader } from '../reader.js';
import * as statements from './payment-history-statements.js';

/** Payments that are a page of a list. */
const PAGE = 500;
/** Times are kept in milliseconds. */
const UNITS_PER_MS = 1;
const SECOND_MS = 1_000;

/** `now`: the store's clock; `wallClock`: the machine's. Reads on the main thread: pages are short, and each comes from an index or the table in its own order. */
export function createEmbeddedPaymentHistory(
  reader: Reader,
  now: () => number,
  wallClock: () => number,
): PaymentHistory {
  const find = reader.prepare(statements.FIND);
  const findLife = reader.prepare(statements.FIND_LIFE);
  const settled = reader.prepare(statements.SETTLED);
  const countSettled = reader.prepare(statements.COUNT_SETTLED);
  const settledRefunds = reader.prepare(statements.SETTLED_REFUNDS);
  const countSettledRefunds = reader.prepare(statements.COUNT_SETTLED_REFUNDS);
  const countPaid = reader.prepare(statements.COUNT_PAID);
  const newest = preparedAll(statements.NEWEST);
  const nthId = preparedAll(statements.NTH_ID);
  const ofKeys = reader.prepare(statements.OF_KEYS);
  const ofReference = reader.prepare(statements.OF_REFERENCE);
  const ofReferenceWithRefunds = reader.prepare(statements.OF_REFERENCE_WITH_REFUNDS);
  const nthRefundIdOfReference = reader.prepare(statements.NTH_REFUND_ID_OF_REFERENCE);
  const countKeys = reader.prepare(statements.COUNT_KEYS);
  const refundsOf = reader.prepare(statements.REFUNDS_OF);
  const newestAttempt = reader.prepare(statements.NEWEST_ATTEMPT);

  function preparedAll<Source extends string>(texts: Record<Source, string>): Record<Source, PreparedRead> {
    const prepared = Object.entries<string>(texts).map(([source, text]) => [source, reader.prepare(text)]);
    return Object.fromEntries(prepared) as Record<Source, PreparedRead>;
  }

  const newestReads: NewestReads = {
    countKeys: async ({ first, last }, atMost) => (countKeys.get(first, last, atMost) as { keys: number }).keys,
    ofKeys: async (query) => ofKeys.all(...valuesOf(query)) as HistoryRow[],
    ofReference: async (query) => ofReference.all(...valuesOf(query), query.reference) as HistoryRow[],
    ofReferenceWithRefunds: async (query) =>
      ofReferenceWithRefunds.all(...valuesOf(query), query.reference) as HistoryRow[],
    async nthRefundIdOfReference({ from, below, reference }, n) {
      return idOf(nthRefundIdOfReference.get(from, below, n, reference));
    },
    page: async (query) => newest[query.source].all(...valuesOf(query)) as HistoryRow[],
    async nthId({ source, from, below, client }, n) {
      return idOf(nthId[source].get(from, below, n, ...(source === 'ofClient' ? [client] : [])));
    },
  };

  return {
    async find(key) {
      const row = find.get(key) as HistoryRow | undefined;
      return row && recordOf(row);
    },

    async findLife(key) {
      const row = findLife.get(key, now()) as (LifeRow & { readonly claimed_at_wall: number }) | undefined;
      return row && lifeOf(row, resolutionCountsFrom(row, wallClock()));
    },

    async refundsOf(payment) {
      const rows = refundsOf.all(payment) as HistoryRow[];
      return rows.map((row) => recordOf(row) as ClaimedPayment).reverse();
    },

    async newestAttempt(reference, client) {
      const row = newestAttempt.get(reference, client ?? null) as HistoryRow | undefined;
      return row && recordOf(row);
    },

    async newest(selection, readLimit) {
      // If filters leave rows out, more of them are read than the page has.
      const isFiltered =
        selection.find ?? selection.processor ?? selection.state ?? selection.isPending ?? selection.content;
      await reader.listReads.wait(selection.reader, isFiltered === undefined ? selection.limit / PAGE : 1);
      return newestPage(selection, readLimit, newestReads);
    },

    async settled(period) {
      const { from, to, kind, limit } = period;
      await reader.listReads.wait(period.reader, limit / PAGE);
      const start = startOf(period, UNITS_PER_MS);
      const statement = kind === 'refund' ? settledRefunds : settled;
      const rows = statement.all(start.settledAt, start.key, from, to, limit + 1) as HistoryRow[];
      return settledPageOf(rows, period, (row) => row.settled_at ?? 0);
    },

    async countSettled(period) {
      const { from, to, kind = 'payment', limit } = period;
      const start = startOf(period, UNITS_PER_MS);
      const statement = kind === 'refund' ? countSettledRefunds : countSettled;
      const values = [start.settledAt, start.key, from, to, limit, Number(kind !== 'payment')];
      return countsOf(statement.get(...values) as CountedRow, limit);
    },

    countPaid: async () => paidCountsOf(countPaid.all(MOST_LOOKED_AT) as unknown as PaidRow[]),
  };
}

/** As `RESOLVE` judges it, by the clock that says that more time has passed; in whole seconds, because the two run apart by milliseconds. */
function resolutionCountsFrom(
  { now, claimed_at, claimed_at_wall }: LifeRow & { readonly claimed_at_wall: number },
  wallMs: number,
): number {
  const aheadSeconds = Math.floor((wallMs - claimed_at_wall - (now - claimed_at)) / SECOND_MS);
  return claimed_at - Math.max(0, aheadSeconds) * SECOND_MS;
}

const idOf = (row: unknown) => (row as Pick<HistoryRow, 'transaction_id'> | undefined)?.transaction_id;
