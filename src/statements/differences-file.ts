import type { Difference } from './comparison.js';
import { GROUPS } from './groups.js';
import { spreadsheetText } from './spreadsheet-text.js';

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
] as const;

/** For a spreadsheet, which takes a file in UTF-8 without this mark for one of another alphabet. */
export const CSV_HEADER = `\ufeff${lineOf(COLUMNS)}`;

export function csvLineOf({ kind, differs, ours, theirs, unread, firstLine }: Difference): string {
  return lineOf([
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
  ]);
}

/** RFC 4180. */
function lineOf(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map((cell) => cellOf(String(cell ?? ''))).join(',')}\r\n`;
}

function cellOf(text: string): string {
  const safe = spreadsheetText(text);
  return /[",;|\t\r\n']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
