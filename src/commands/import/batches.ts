import { createHash } from 'node:crypto';
import type { NewTransaction } from '../../transactions/transaction.js';
import { csvRows } from './csv.js';
import type { Reading } from './import-state.js';
import { contentOf, type Line, linesOf } from './lines.js';
import type { RejectedRow } from './rejected-rows.js';
import { type AmountMark, isText, type Row, readNdjsonRow, rejected } from './rows.js';

/** So that rejected rows of the longest lines fit into memory, also as JSON. */
const MOST_BATCH_BYTES = 8 * 1024 * 1024;

/** Rows that are sent together, and what was rejected between them. */
export interface Batch {
  /** The places of its first byte, and of the byte after its last one. */
  readonly start: number;
  readonly end: number;
  readonly firstLine: number;
  readonly lastLine: number;
  readonly good: readonly { readonly line: number; readonly transaction: NewTransaction }[];
  readonly rejected: readonly RejectedRow[];
  readonly marks: Marks;
}

/** The number of rows that show each mark. */
export type Marks = Readonly<Record<AmountMark, number>>;

export const NO_MARKS: Marks = { thousands: 0, commas: 0, points: 0 };

export const sumOf = (one: Marks, other: Marks): Marks => ({
  thousands: one.thousands + other.thousands,
  commas: one.commas + other.commas,
  points: one.points + other.points,
});

/**
 * All rows in batches of `batchRows`, good ones and rejected ones, or of 8 MiB, so that the same bytes give the same batches. The rows of a batch fit into a request of 1 MiB:
 * a row has two accounts of at most 64 code points, which is far less than 1,000 bytes.
 */
export async function* batchesOf(input: AsyncIterable<Buffer>, reading: Reading): AsyncGenerator<Batch> {
  const begin = (start: number, firstLine: number) => ({
    start,
    firstLine,
    good: [] as Batch['good'][number][],
    rejected: [] as RejectedRow[],
    marks: NO_MARKS,
  });
  let batch = begin(0, 1);
  let last: Row | undefined;
  for await (const row of rowsOf(linesOf(input), reading)) {
    const { line, content, bytes } = row;
    last = row;
    if ('mark' in content && content.mark) batch.marks = sumOf(batch.marks, { ...NO_MARKS, [content.mark]: 1 });
    if (content.state === 'good') batch.good.push({ line, transaction: content.transaction });
    if (content.state === 'rejected') {
      batch.rejected.push({ line, reason: content.reason, row: bytes.toString('utf8').replace(/(\r\n|\n|\r)$/, '') });
    }
    const isFull =
      batch.good.length + batch.rejected.length === reading.batchRows || row.end - batch.start >= MOST_BATCH_BYTES;
    if (!isFull) continue;
    yield { ...batch, end: row.end, lastLine: row.nextLine - 1 };
    batch = begin(row.end, row.nextLine);
    last = undefined;
  }
  if (last) yield { ...batch, end: last.end, lastLine: last.nextLine - 1 };
}

/** SHA-256 of the whole input. Throws UsageError if a line is too long for a row, before anything is sent. */
export async function digestOf(input: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256');
  for await (const { bytes } of linesOf(input)) hash.update(bytes);
  return hash.digest('hex');
}

/** Rows, and what is between them: every line of the input is in one of them. */
export async function* rowsOf(lines: AsyncGenerator<Line>, reading: Reading): AsyncGenerator<Row> {
  if (reading.format === 'csv') yield* csvRows(lines, reading);
  else for await (const line of lines) yield ndjsonRow(line, reading.ignored);
}

function ndjsonRow(line: Line, ignored: readonly string[]): Row {
  const content = contentOf(line);
  const place = { line: line.number, bytes: line.bytes, end: line.end, nextLine: line.number + 1 };
  if (!isText(content)) return { ...place, content: rejected('It is not valid UTF-8.') };
  if (content.toString('utf8').trim() === '') return { ...place, content: { state: 'no row' } };
  return { ...place, content: readNdjsonRow(content, ignored) };
}
