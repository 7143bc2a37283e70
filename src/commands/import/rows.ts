import { isUtf8 } from 'node:buffer';
import { type JsonMember, type JsonText, JsonTextError, readJsonText } from '../../platform/json-text.js';
import { newTransactionIn } from '../../transactions/new-transaction.js';
import type { NewTransaction } from '../../transactions/transaction.js';
import { type Columns, GIVEN_MEMBERS, ignoreOption, nameOf, READ_MEMBERS } from './columns.js';

/** One row of the input, which may be several lines in CSV. */
export interface Row {
  /** The number of its first line. */
  readonly line: number;
  /** With all line breaks. */
  readonly bytes: Buffer;
  /** The place of the byte after it. */
  readonly end: number;
  /** The number of the line after it. */
  readonly nextLine: number;
  readonly content: RowContent;
}

export type RowContent =
  | (Judged & { readonly mark?: AmountMark })
  /** The header, or a line of blanks and separators alone. */
  | { readonly state: 'no row' };

/**
 * A sign of the program that wrote an amount of CSV. `commas`: `100,50` or `1.250.000`, which is rejected. `thousands`: `1.500`, which is read
 * as 1.5, and is a thousand and a half where a comma comes before the decimals. `points`: a point that can only be before decimals.
 */
export type AmountMark = 'commas' | 'thousands' | 'points';

type Judged =
  | { readonly state: 'good'; readonly transaction: NewTransaction }
  | { readonly state: 'rejected'; readonly reason: string };

export const rejected = (reason: string): Judged => ({ state: 'rejected', reason });

/**
 * Checked by the rules of the service, on the text of numbers, so that no amount becomes a float. One rule is stricter: an unknown
 * member is refused, because with a misspelt `status` the row would silently become PENDING.
 */
export function readNdjsonRow(content: Buffer, ignored: readonly string[]): RowContent {
  const object = objectIn(content);
  if ('state' in object) return object;
  if (object.kind !== 'object') return judged(object);
  const kept = [...object.members].filter(([name]) => !ignored.includes(nameOf(name)));
  const unknown = kept.find(([name]) => !isKnownMember(name))?.[0];
  if (unknown !== undefined) {
    return rejected(
      `'${unknown}' is no member of a transaction. To leave it out: ${ignoreOption([...ignored, unknown])}`,
    );
  }
  const isRead = object.duplicate === undefined || !ignored.includes(nameOf(object.duplicate));
  return judged({ ...object, members: new Map(kept), duplicate: isRead ? object.duplicate : undefined });
}

function objectIn(content: Buffer): JsonText | RowContent {
  try {
    return readJsonText(content);
  } catch (error) {
    if (error instanceof JsonTextError) return rejected(`The line cannot be read: ${error.message}`);
    throw error;
  }
}

function isKnownMember(name: string): boolean {
  return (READ_MEMBERS as readonly string[]).includes(name) || GIVEN_MEMBERS.includes(name);
}

/**
 * The cells of a row under its columns. An account in quotes keeps its blanks; those around an amount or a status are removed. An empty status counts as
 * absent: CSV has no other way to say so.
 */
export function readCsvRow(cells: readonly string[], columns: Columns): RowContent {
  if (cells.length !== columns.length) {
    return rejected(`It has ${cells.length} cells, and the header has ${columns.length}.`);
  }
  const members = new Map<string, JsonMember>();
  let amountText = '';
  for (const [index, column] of columns.entries()) {
    if (column === undefined) continue;
    const cell = cells[index] ?? '';
    const text = column === 'amount' || column === 'status' ? cell.trim() : cell;
    if (column === 'amount') amountText = text;
    if (column !== 'status' || text !== '') members.set(column, { type: 'string', text });
  }
  const content = judged({ kind: 'object', members, duplicate: undefined });
  const marks = content.state === 'good' ? GOOD_MARKS : REJECTED_MARKS;
  const mark = marks.find(([pattern]) => pattern.test(amountText))?.[1];
  return mark === undefined ? content : { ...content, mark };
}

const GOOD_MARKS = [
  [/^[1-9]\d{0,2}\.\d{3}$/, 'thousands'],
  [/\./, 'points'],
] as const;
const REJECTED_MARKS = [
  [/^[\d.]*\d,\d+$/, 'commas'],
  [/^\d{1,3}(?:\.\d{3}){2,}$/, 'commas'],
] as const;

export function isText(bytes: Buffer): boolean {
  return isUtf8(bytes);
}

function judged(object: JsonText): Judged {
  const transaction = newTransactionIn(object);
  return 'problem' in transaction ? rejected(transaction.problem) : { state: 'good', transaction };
}
