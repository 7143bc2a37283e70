import type { Difference } from './differences.js';
import { GROUPS } from './groups.js';
import { csvLine } from './spreadsheet-text.js';

const COLUMNS = [
  'difference',
  'what differs',
  'idempotency key',
  'our reference',
  'our attempt',
  'our transaction id',
  'our state',
  'our amount',
  'our currency',
  'our claimed at',
  'our settled at',
  'statement line',
  'statement reference',
  'statement order',
  'statement transaction id',
  'statement status',
  'statement amount',
  'statement currency',
  'line that counts',
  'problem of the line',
  'our refund',
  'refund of the payment',
  'statement refund',
] as const;

/** For a spreadsheet, which takes a file in UTF-8 without this mark for one of another alphabet. */
export const DIFFERENCE_CSV_HEADER = `\ufeff${csvLine(COLUMNS)}`;

export function differenceCsvLine({ kind, differs, ours, theirs, unread, firstLine }: Difference): string {
  return csvLine([
    GROUPS[kind].title,
    differs.join(', '),
    ours?.idempotencyKey,
    ours?.reference,
    ours?.attempt,
    ours?.transactionId,
    ours?.state,
    ours?.amount,
    ours?.currency,
    ours?.claimedAt,
    ours?.settledAt,
    theirs?.line ?? unread?.line,
    theirs?.reference,
    theirs?.order,
    theirs?.transactionId,
    theirs?.status,
    theirs?.amount,
    theirs?.currency,
    firstLine,
    unread?.problem,
    ours?.refund?.name,
    ours?.refund?.payment,
    theirs?.refund,
  ]);
}
