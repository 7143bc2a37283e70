import type { NewestPage, PaymentRecord, Selection } from '../../payments/ports/payment-history.js';
import { keyRangeOf } from './history-pages.js';
import { type HistoryRow, recordOf } from './rows.js';

/** Longer than every transaction id. With digits up to here a prefix is above all ids that begin with it, in every collation. */
const LONGEST_ID = 64;

/** What is read in the order of its keys, by an index of its own. */
export type NewestSource = 'any' | 'DECLINED' | 'PROCESSING' | 'ofClient';

export interface NewestQuery {
  readonly source: NewestSource;
  /** Keys from the first on and below the second. */
  readonly from: string;
  readonly below: string;
  readonly limit: number;
  /** Null: no restriction. */
  readonly state: PaymentRecord['state'] | null;
  readonly processor: string | null;
  readonly ids: IdRange | null;
  readonly client: string | null;
}

export interface IdRange {
  readonly first: string;
  readonly last: string;
}

export interface NewestReads {
  /** How many payments have such an id; counts no further than `atMost`. */
  countNamed(ids: IdRange, atMost: number): Promise<number>;
  /** Those whose transaction id is in `ids`, read as a whole. */
  named(query: NewestQuery): Promise<readonly HistoryRow[]>;
  page(query: NewestQuery): Promise<readonly HistoryRow[]>;
  /** The key of the nth newest row of the source in the range; undefined where there are fewer. */
  nthKey(query: NewestQuery, n: number): Promise<string | undefined>;
}

/**
 * A page of `PaymentHistory.newest`. Where filters leave rows out, the page first finds the lowest key that it may read.
 * Concurrent payments do not matter: the next page begins below that key.
 *
 * When few transaction ids match the prefix, their rows are read and sorted. Otherwise rows are read in key order, so that a
 * client's page reads, and ends at, only keys of that client.
 */
export async function newestPage(selection: Selection, readLimit: number, reads: NewestReads): Promise<NewestPage> {
  const query = queryOf(selection);
  if (query.ids && (await reads.countNamed(query.ids, readLimit + 1)) <= readLimit) {
    return pageOf(await reads.named(query), selection.limit, undefined);
  }
  const end = leavesRowsOut(query) ? await reads.nthKey(query, readLimit) : undefined;
  const rows = await reads.page(end === undefined ? query : { ...query, from: end });
  return pageOf(rows, selection.limit, end);
}

function queryOf(selection: Selection): NewestQuery {
  const { state = null, client = null, processor = null, find, limit } = selection;
  const ofState = state === 'DECLINED' || state === 'PROCESSING' ? state : 'any';
  return {
    source: client === null ? ofState : 'ofClient',
    ...keyRangeOf(selection),
    // One more than asked for shows whether there is a next page.
    limit: limit + 1,
    state,
    processor,
    ids:
      find && 'transactionId' in find
        ? { first: find.transactionId, last: find.transactionId.padEnd(LONGEST_ID, '9') }
        : null,
    client,
  };
}

function leavesRowsOut({ source, state, processor, ids }: NewestQuery): boolean {
  return processor !== null || ids !== null || (state !== null && state !== source);
}

function pageOf(rows: readonly HistoryRow[], limit: number, end: string | undefined): NewestPage {
  const payments = rows.slice(0, limit).map(recordOf);
  return { payments, next: rows.length > limit ? payments.at(-1)?.key : end };
}
