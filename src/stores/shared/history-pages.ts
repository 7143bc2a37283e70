import {
  MOST_LOOKED_AT,
  type SettledCounts,
  type SettledPage,
  type SettledPeriod,
} from '../../payments/ports/payment-history.js';
import type { PaidCounts } from '../../payments/values/processor-names.js';
import { type HistoryRow, recordOf } from './rows.js';

export const BELOW_ALL_KEYS = '00000000-0000-0000-0000-000000000000';

/** A place in the order of settling, just after a payment: the time in the store's own unit, then the key. */
export interface SettledPosition {
  readonly settledAt: number;
  readonly key: string;
}

const POSITION = /^(\d{1,16})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** Where a page begins; RangeError when `after` is not a `next` that a page gave. */
export function startOf({ from, after }: SettledPeriod, unitsPerMs: number): SettledPosition {
  if (after === undefined) return { settledAt: from * unitsPerMs, key: BELOW_ALL_KEYS };
  const [, settledAt, key] = POSITION.exec(after) ?? [];
  if (settledAt === undefined || key === undefined) throw new RangeError('not a position in the order of settling');
  return { settledAt: Number(settledAt), key };
}

/** Makes a page of rows that were read with one more than it holds: the row too many says that there is a next page. */
export function pageOf<Row extends HistoryRow>(
  rows: readonly Row[],
  limit: number,
  settledAtOf: (row: Row) => number,
): SettledPage {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = last && rows.length > limit ? `${settledAtOf(last)}.${last.key}` : undefined;
  return { payments: shown.map(recordOf), next };
}

/** What a page counted, and its last row, in the store's own unit of time. */
export interface CountedRow {
  /** Those that were cancelled are in it. */
  readonly counted: number;
  readonly completed: number;
  readonly declined: number;
  readonly key: string | null;
  readonly last_settled_at: number | null;
}

/** A page that is full may have another one after it. */
export interface PaidRow {
  readonly processor: string | null;
  readonly payments: number;
  readonly paid: number;
}

/** `rows`: a group for each processor; payments that were closed before they were claimed have none. */
export function paidCountsOf(rows: readonly PaidRow[]): PaidCounts {
  const looked = rows.reduce((sum, { payments }) => sum + payments, 0);
  return {
    byProcessor: new Map(rows.map(({ processor, paid }) => [processor ?? '', paid])),
    isPart: looked >= MOST_LOOKED_AT,
  };
}

export function countsOf(row: CountedRow | undefined, limit: number): SettledCounts {
  const { counted = 0, completed = 0, declined = 0, key, last_settled_at: settledAt } = row ?? {};
  return { completed, declined, next: counted === limit ? `${settledAt}.${key}` : undefined };
}
