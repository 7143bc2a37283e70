import { isUtf8 } from 'node:buffer';
import { PublicError } from '../../http/errors/public-errors.js';
import { type JsonBody, type JsonMember, readJsonBody } from '../../http/requests/json-body.js';
import { readNewTransaction } from '../../http/transactions/request.js';
import type { NewTransaction } from '../../transactions/transaction.js';

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
  | { readonly state: 'good'; readonly transaction: NewTransaction }
  | { readonly state: 'rejected'; readonly reason: string }
  /** An empty line, which is no row. */
  | { readonly state: 'empty' };

/** Members that are read. */
export const READ_MEMBERS = ['fromAccount', 'toAccount', 'amount', 'status'] as const;
/** Members of an export that a new transaction gets from the service. */
export const GIVEN_MEMBERS: readonly string[] = ['transactionId', 'createdAt'];

export function isKnownMember(name: string, ignored: readonly string[]): boolean {
  return (READ_MEMBERS as readonly string[]).includes(name) || GIVEN_MEMBERS.includes(name) || ignored.includes(name);
}

export const rejected = (reason: string): RowContent => ({ state: 'rejected', reason });

/**
 * Checked by the code of the service, on the text of numbers, so that no amount becomes a float. One rule is stricter: an unknown
 * member is refused, because with a misspelt `status` the row would silently become PENDING.
 */
export function readNdjsonRow(content: Buffer, ignored: readonly string[]): RowContent {
  return judged(() => {
    const body = readJsonBody(content);
    if (body.kind === 'object') {
      const unknown = [...body.members.keys()].find((name) => !isKnownMember(name, ignored));
      if (unknown !== undefined) {
        return rejected(`'${unknown}' is no member of a transaction. --ignore ${unknown} leaves it out.`);
      }
    }
    return body;
  });
}

/** The cells of a row under the names of its columns. An empty status counts as absent: CSV has no other way to say so. */
export function readCsvRow(cells: readonly string[], columns: readonly string[]): RowContent {
  if (cells.length !== columns.length) {
    return rejected(`It has ${cells.length} cells, and the header has ${columns.length}.`);
  }
  const members = new Map<string, JsonMember>();
  for (const [index, column] of columns.entries()) {
    const text = cells[index] ?? '';
    if (column !== 'status' || text !== '') members.set(column, { type: 'string', text });
  }
  return judged(() => ({ kind: 'object', members, duplicate: undefined }));
}

export function isText(bytes: Buffer): boolean {
  return isUtf8(bytes);
}

function judged(read: () => JsonBody | RowContent): RowContent {
  try {
    const body = read();
    return 'state' in body ? body : { state: 'good', transaction: readNewTransaction(body) };
  } catch (error) {
    if (error instanceof PublicError) return rejected(error.message.replace('The request body', 'The line'));
    throw error;
  }
}
