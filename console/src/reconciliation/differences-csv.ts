import type { Difference, Kind } from './comparison.js';

export const KIND_NAMES: Readonly<Record<Kind, string>> = {
  different: 'different',
  theirs: 'only with the processor',
  ours: 'only with us',
  duplicate: 'twice on the statement',
};

const COLUMNS = [
  'difference',
  'what differs',
  'idempotency key',
  'our transaction id',
  'our state',
  'our amount',
  'our currency',
  'our claimed at',
  'our settled at',
  'statement line',
  'statement reference',
  'statement transaction id',
  'statement status',
  'statement amount',
  'statement currency',
  'line that counts',
] as const;

/** What a spreadsheet takes for a formula (OWASP, CSV injection). A negative amount is none. */
const FORMULA = /^[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

export const CSV_HEADER = lineOf(COLUMNS);

export function csvLineOf({ kind, differs, ours, theirs, firstLine }: Difference): string {
  return lineOf([
    KIND_NAMES[kind],
    differs.join(', '),
    ours?.idempotencyKey,
    ours?.transactionId,
    ours?.state,
    ours?.amount,
    ours?.currency,
    ours?.claimedAt,
    ours?.settledAt,
    theirs?.line,
    theirs?.reference,
    theirs?.transactionId,
    theirs?.status,
    theirs?.amount,
    theirs?.currency,
    firstLine,
  ]);
}

/** RFC 4180. */
function lineOf(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map((cell) => cellOf(String(cell ?? ''))).join(',')}\r\n`;
}

/** A text that begins like a formula gets an apostrophe, which a spreadsheet shows as text. */
function cellOf(text: string): string {
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
