import {
  MOST_LOOKED_AT,
  type NewestPage,
  type OperationKind,
  type PaymentRecord,
  type Selection,
  type SettledCounts,
  type SettledPage,
  type SettledPeriod,
} from '../../payments/ports/payment-history.js';
import type { PaidCounts } from '../../payments/values/processor-names.js';
import { lowestTransactionIdAt } from '../../payments/values/transaction-id.js';
import { type HistoryRow, recordOf } from './payment-rows.js';

/** Below and above every transaction id, in every collation. */
const BELOW_ALL_IDS = 'TXN';
/** Longer than every transaction id. With digits up to here a prefix is above all ids that begin with it. */
const LONGEST_ID = 64;
const ABOVE_ALL_IDS = 'TXN'.padEnd(LONGEST_ID, '9');
const KEY_DIGITS = 32;

/** Rows that are read in the order of their transaction ids, by an index of their own; for `PROCESSING`, by two. */
export type NewestSource = 'any' | 'DECLINED' | 'PROCESSING' | 'PENDING' | 'ofClient' | 'refunds';

export interface NewestQuery {
  readonly source: NewestSource;
  /** Transaction ids from the first on and below the second. */
  readonly from: string;
  readonly below: string;
  readonly limit: number;
  /** The state of all payments in the list; null if the list has every state. `PENDING` means PROCESSING and waiting at the processor. */
  readonly state: PaymentRecord['state'] | 'PENDING' | null;
  readonly processor: string | null;
  readonly keys: KeyRange | null;
  readonly client: string | null;
  /** A text that a row's content must have in it: the rows that have it are looked at once more. */
  readonly contentPart: string | null;
  readonly reference: string | null;
  /** Null if it restricts nothing. */
  readonly kind: OperationKind | null;
}

/** Keys from the first to the last, both of them included. */
export interface KeyRange {
  readonly first: string;
  readonly last: string;
}

export interface NewestReads {
  /** How many payments have such a key; counts no further than `atMost`. */
  countKeys(keys: KeyRange, atMost: number): Promise<number>;
  /** The payments whose key is in `keys`, read as a whole. */
  ofKeys(query: NewestQuery): Promise<readonly HistoryRow[]>;
  /** The payments of the reference, read as a whole: each client has at most as many as there are attempts. */
  ofReference(query: NewestQuery): Promise<readonly HistoryRow[]>;
  /** The payments of the reference and their refunds, of which a payment has at most as many as it has minor units. */
  ofReferenceWithRefunds(query: NewestQuery): Promise<readonly HistoryRow[]>;
  /** The transaction id of the nth newest refund of the reference in the range; undefined if there are fewer. */
  nthRefundIdOfReference(query: NewestQuery, n: number): Promise<string | undefined>;
  page(query: NewestQuery): Promise<readonly HistoryRow[]>;
  /** The transaction id of the nth newest row of the source in the range; undefined if there are fewer. */
  nthId(query: NewestQuery, n: number): Promise<string | undefined>;
}

/**
 * A page of `PaymentHistory.newest`. If filters leave rows out, the page first finds the lowest id that it may read.
 * Concurrent payments do not matter: the next page begins below that id.
 *
 * When few keys match the prefix, their rows are read and sorted. Otherwise rows are read in the order of their ids, so that a
 * client's page reads, and ends at, only payments of that client.
 *
 * Refunds are rare among the rows: so payments are first read as if there were none, with nothing to find before. Only a page that has some
 * is read once more, as filters are.
 */
export async function newestPage(selection: Selection, readLimit: number, reads: NewestReads): Promise<NewestPage> {
  const query = queryOf(selection);
  if (selection.isPending && (selection.state ?? 'PROCESSING') !== 'PROCESSING') {
    return { payments: [], next: undefined };
  }
  if (query.reference !== null) return pageOfReference(query, selection, readLimit, reads);
  if (query.keys && (await reads.countKeys(query.keys, readLimit + 1)) <= readLimit) {
    return newestPageOf(await reads.ofKeys(query), selection, undefined);
  }
  if (!leavesRowsOut(query)) {
    const ofBoth = await reads.page({ ...query, kind: null });
    if (query.kind !== 'payment' || ofBoth.every(isPayment)) return newestPageOf(ofBoth, selection, undefined);
  }
  const end = await reads.nthId(query, readLimit);
  const rows = await reads.page(end === undefined ? query : { ...query, from: end });
  return newestPageOf(rows, selection, end);
}

/** A refund has no reference of its own: it is found by its payment. */
async function pageOfReference(
  query: NewestQuery,
  selection: Selection,
  readLimit: number,
  reads: NewestReads,
): Promise<NewestPage> {
  if (query.kind === 'payment') return newestPageOf(await reads.ofReference(query), selection, undefined);
  const end = await reads.nthRefundIdOfReference(query, readLimit);
  const rows = await reads.ofReferenceWithRefunds(end === undefined ? query : { ...query, from: end });
  return newestPageOf(rows, selection, end);
}

const isPayment = (row: HistoryRow) => row.refund_of === null;

function queryOf(selection: Selection): NewestQuery {
  const { client = null, processor = null, reference = null, kind = 'payment', find, content, limit } = selection;
  const state = selection.isPending ? 'PENDING' : (selection.state ?? null);
  const ofState = state === 'DECLINED' || state === 'PROCESSING' || state === 'PENDING' ? state : 'any';
  const ofAllClients = kind === 'refund' ? 'refunds' : ofState;
  return {
    source: client === null ? ofAllClients : 'ofClient',
    ...idRangeOf(selection),
    // One more than asked for shows whether there is a next page.
    limit: limit + 1,
    state,
    processor,
    keys: find && 'keyDigits' in find ? keysThatBegin(find.keyDigits) : null,
    client,
    // As `JSON.stringify` wrote it into the row.
    contentPart: content === undefined ? null : JSON.stringify(content),
    reference,
    kind: kind === 'all' ? null : kind,
  };
}

/** The query's values, in the order in which the statements of both databases take them. */
export function valuesOf(query: NewestQuery): (string | number | null)[] {
  const { from, below, limit, state, processor, keys, client, contentPart, kind } = query;
  return [from, below, limit, state, processor, keys?.first ?? null, keys?.last ?? null, client, contentPart, kind];
}

/** Times, and the first digits of an id, are ranges of ids. */
function idRangeOf({ claimedFrom, claimedTo, before, find }: Selection): { from: string; below: string } {
  const from = [claimedFrom === undefined ? BELOW_ALL_IDS : lowestTransactionIdAt(claimedFrom)];
  const below = [claimedTo === undefined ? ABOVE_ALL_IDS : lowestTransactionIdAt(claimedTo)];
  if (before !== undefined) below.push(before);
  if (find && 'transactionId' in find) {
    from.push(find.transactionId);
    below.push(find.transactionId.padEnd(LONGEST_ID, '9'));
  }
  return { from: from.toSorted().at(-1) as string, below: below.toSorted()[0] as string };
}

function keysThatBegin(digits: string): KeyRange {
  return { first: keyOf(digits.padEnd(KEY_DIGITS, '0')), last: keyOf(digits.padEnd(KEY_DIGITS, 'f')) };
}

function keyOf(digits: string): string {
  const parts = [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)];
  return parts.join('-');
}

/** Apart from the kind, if it is of payments. */
function leavesRowsOut({ source, state, processor, keys, contentPart, kind }: NewestQuery): boolean {
  if (kind === 'refund' && source !== 'refunds') return true;
  return processor !== null || keys !== null || contentPart !== null || (state !== null && state !== source);
}

function newestPageOf(rows: readonly HistoryRow[], { limit, content }: Selection, end: string | undefined): NewestPage {
  const shown = rows.slice(0, limit);
  const payments = shown.map(recordOf).filter((payment) => content === undefined || hasContent(payment, content));
  return { payments, next: rows.length > limit ? shown.at(-1)?.transaction_id : end };
}

/** The part of a row's text may be a name of its metadata, too. */
function hasContent({ description, metadata = {} }: PaymentRecord, text: string): boolean {
  return description === text || Object.values(metadata).includes(text);
}

export const BELOW_ALL_KEYS = '00000000-0000-0000-0000-000000000000';

/** A place in the order of settling, just after a payment: the time in the store's own unit, then the key. */
export interface SettledPosition {
  readonly settledAt: number;
  readonly key: string;
}

const POSITION = /^(\d{1,16})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** The position at which a page begins; RangeError if `after` is not a `next` that a page gave. */
export function startOf({ from, after }: SettledPeriod, unitsPerMs: number): SettledPosition {
  if (after === undefined) return { settledAt: from * unitsPerMs, key: BELOW_ALL_KEYS };
  const [, settledAt, key] = POSITION.exec(after) ?? [];
  if (settledAt === undefined || key === undefined) throw new RangeError('not a position in the order of settling');
  return { settledAt: Number(settledAt), key };
}

/**
 * Makes a page of rows that were read with one more than it holds: the row too many says that there is a next page. A page of payments leaves
 * out the refunds among its rows, and is shorter then. Refunds alone are read by an index of their own.
 */
export function settledPageOf<Row extends HistoryRow>(
  rows: readonly Row[],
  { limit, kind = 'payment' }: Pick<SettledPeriod, 'limit' | 'kind'>,
  settledAtOf: (row: Row) => number,
): SettledPage {
  const read = rows.slice(0, limit);
  const shown = kind === 'payment' ? read.filter(isPayment) : read;
  const last = read.at(-1);
  const next = last && rows.length > limit ? `${settledAtOf(last)}.${last.key}` : undefined;
  return { payments: shown.map(recordOf), next };
}

/** The counts of a page, and its last row, in the store's own unit of time. */
export interface CountedRow {
  /** All rows that were read: those that were cancelled, and those of another kind, are in it. */
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
