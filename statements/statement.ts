import type { DecimalMark } from './amounts.js';
import type { StatementFormat } from './format.js';
import { currencyOfAmounts, recordsOf } from './format.js';
import { linesOf } from './lines.js';
import type { StatementRecord } from './records.js';
import { type RefundLines, statedRefunds, withRefundLines } from './refund-lines.js';
import {
  idsIn,
  type PendingRow,
  type Reading,
  readStatementRow,
  resolved,
  type StatementRow,
  type UnreadRow,
} from './row.js';

const MOST_SHARED_TEXTS = 10_000;

/** Every line of the file is one of these. */
export interface LineCounts {
  read: number;
  refused: number;
  /** Blank lines, or the header and the lines before it. */
  skipped: number;
}

export interface StatementContent extends RefundLines {
  /** Refunds that have no line, because the lines of their payments say them. */
  readonly statedRefunds: readonly StatementRow[];
  readonly unread: readonly UnreadRow[];
  readonly lines: LineCounts;
}

export interface StatementFile extends Reading {
  readonly bytes: AsyncIterable<Uint8Array>;
  readonly format: StatementFormat;
}

/**
 * Reads a whole statement. An amount such as `1.000` is read as the other amounts of the file show, or as a person says: else its line is
 * refused. `onRows` is called with the number of lines so far.
 */
export async function readStatement(
  file: StatementFile,
  onRows: (rows: number) => void = () => {},
): Promise<StatementContent> {
  const { bytes, format } = file;
  const rows: StatementRow[] = [];
  const pending: (PendingRow & { readonly lines: number })[] = [];
  const unread: UnreadRow[] = [];
  const lines: LineCounts = { read: 0, refused: 0, skipped: 0 };
  const marks = new Set<DecimalMark>();
  const reading: Reading = { ...file, namedCurrency: currencyOfAmounts(format, file.columns) };
  const delimiter = format.kind === 'CSV' ? format.delimiter : undefined;
  const shared = sharedTexts();

  function take(record: StatementRecord): void {
    if ('skipped' in record) {
      lines.skipped += record.lines;
      return;
    }
    const read =
      'problem' in record
        ? { line: record.line, problem: record.problem, ids: idsIn(record.text, delimiter) }
        : readStatementRow(record.line, record.fields, reading);
    if ('problem' in read) {
      lines.refused += record.lines;
      unread.push(read);
      return;
    }
    lines.read += record.lines;
    if (read.mark !== undefined) marks.add(read.mark);
    if ('refunded' in read) {
      pending.push({ ...read, lines: record.lines });
      return;
    }
    const { amount, currency, status, type } = read.row;
    const texts = { amount: shared(amount), currency: shared(currency), status: shared(status), type: shared(type) };
    rows.push({ ...read.row, ...texts });
  }

  const reader = recordsOf(format, file.columns);
  for await (const some of linesOf(bytes)) {
    for (const line of some) for (const record of reader.add(line)) take(record);
    onRows(lines.read + lines.refused);
  }
  for (const record of reader.end()) take(record);

  const [mark, otherMark] = marks;
  const shown = otherMark === undefined ? mark : undefined;
  for (const row of pending) {
    const read = resolved(row, shown);
    if ('problem' in read) {
      lines.read -= row.lines;
      lines.refused += row.lines;
      unread.push(read);
    } else rows.push(read);
  }
  unread.sort((one, other) => one.line - other.line);
  const all = withRefundLines(rows, file.columns);
  return { ...all, statedRefunds: statedRefunds(all.rows), unread, lines };
}

/** A million rows have few currencies and statuses: each is kept once. */
function sharedTexts(): (text: string) => string {
  const texts = new Map<string, string>();
  return (text) => {
    const known = texts.get(text);
    if (known === undefined && texts.size < MOST_SHARED_TEXTS) texts.set(text, text);
    return known ?? text;
  };
}
