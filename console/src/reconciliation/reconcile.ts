import type { Columns } from './columns.js';
import {
  type ComparisonResult,
  createComparison,
  type Difference,
  type Kind,
  type SettledPayment,
} from './comparison.js';
import { CSV_HEADER, csvLineOf } from './differences-csv.js';
import { linesOf } from './lines.js';
import { StatementError } from './statement-error.js';
import { recordsOf, type StatementFormat } from './statement-format.js';
import { readStatementRow, type StatementRow } from './statement-row.js';

/** Shown of each kind; the file of differences has all. */
export const MOST_SHOWN = 1_000;
const MOST_PROBLEMS_SHOWN = 100;
const MOST_SHARED_TEXTS = 10_000;
const PROGRESS_EVERY_ROWS = 20_000;
/** The file is put away in pieces of this length, out of the memory of scripts. */
const PIECE_CHARACTERS = 1_000_000;

/** As behind a proxy that speaks HTTP/1.0, where a connection that was cut looks like one that has ended. */
const CUT = 'The payments of the service did not arrive whole: their export was cut on its way. Compare again.';

/** The chosen day; and only where rows are left over, the days beside it. */
const DAYS = [0, 1, -1] as const;
export type DayOffset = (typeof DAYS)[number];

type Bytes = AsyncIterable<Uint8Array>;

export interface Statement {
  readonly bytes: Bytes;
  readonly format: StatementFormat;
  readonly columns: Columns;
}

export interface Progress {
  readonly rows: number;
  readonly payments: number;
}

export interface Reconciliation extends ComparisonResult, Progress {
  /** The first of each kind. */
  readonly shown: Readonly<Record<Kind, readonly Difference[]>>;
  /** Lines of the statement that could not be read. */
  readonly problems: {
    readonly count: number;
    readonly first: readonly { readonly line: number; readonly problem: string }[];
  };
  /** All differences, as a CSV file. */
  readonly file: Blob;
}

/**
 * Compares a statement with our exports. Only rows of the statement are kept in memory, each until its payment is found; exports
 * are streamed.
 */
export async function reconcile(
  { bytes, format, columns }: Statement,
  exportOf: (day: DayOffset) => Bytes,
  onProgress: (progress: Progress) => void = () => {},
): Promise<Reconciliation> {
  const shown: Record<Kind, Difference[]> = { different: [], theirs: [], ours: [], duplicate: [] };
  const problems = { count: 0, first: [] as { line: number; problem: string }[] };
  const file = createFile();
  const comparison = createComparison((difference) => {
    const list = shown[difference.kind];
    if (list.length < MOST_SHOWN) list.push(difference);
    file.add(csvLineOf(difference));
  });
  let rows = 0;
  let payments = 0;
  let told = 0;

  function count(more: Progress): void {
    rows += more.rows;
    payments += more.payments;
    if (rows + payments < told + PROGRESS_EVERY_ROWS) return;
    told = rows + payments;
    onProgress({ rows, payments });
  }

  /** A million rows have few currencies and statuses: each is kept once. */
  const texts = new Map<string, string>();
  const shared = (text: string) => {
    const known = texts.get(text);
    if (known === undefined && texts.size < MOST_SHARED_TEXTS) texts.set(text, text);
    return known ?? text;
  };
  const withSharedTexts = (row: StatementRow): StatementRow => ({
    ...row,
    amount: shared(row.amount),
    currency: shared(row.currency),
    status: shared(row.status),
  });

  const reader = recordsOf(format);
  const take = (records: ReturnType<typeof reader.end>) => {
    for (const record of records) {
      const row = 'problem' in record ? record : readStatementRow(record.line, record.fields, columns);
      if ('problem' in row) {
        problems.count += 1;
        if (problems.first.length < MOST_PROBLEMS_SHOWN)
          problems.first.push({ line: record.line, problem: row.problem });
      } else comparison.addRow(withSharedTexts(row));
      count({ rows: 1, payments: 0 });
    }
  };
  for await (const lines of linesOf(bytes)) for (const line of lines) take(reader.add(line));
  take(reader.end());

  for (const day of DAYS) {
    if (day !== 0 && comparison.unexplained === 0) break;
    for await (const exported of paymentsOf(exportOf(day))) {
      for (const payment of exported) comparison.addPayment(payment, day === 0);
      count({ rows: 0, payments: day === 0 ? exported.length : 0 });
    }
  }
  return { ...comparison.end(), rows, payments, shown, problems, file: file.end() };
}

/** What an export holds, some at a time. Throws where it does not end with the line that says how many payments it has. */
async function* paymentsOf(bytes: Bytes): AsyncGenerator<readonly SettledPayment[], void, void> {
  let count = 0;
  let end: { readonly count: number } | undefined;
  for await (const lines of linesOf(bytes)) {
    const payments: SettledPayment[] = [];
    for (const { text } of lines) {
      if (end) throw new StatementError(CUT);
      const line = parsed(text);
      if ('end' in line) end = line;
      else payments.push(line);
    }
    count += payments.length;
    yield payments;
  }
  if (end?.count !== count) throw new StatementError(CUT);
}

function parsed(line: string): SettledPayment | { readonly end: true; readonly count: number } {
  try {
    return JSON.parse(line);
  } catch {
    throw new StatementError(CUT);
  }
}

function createFile() {
  let pieces: Blob[] = [];
  let text = CSV_HEADER;
  return {
    add(line: string): void {
      text += line;
      if (text.length < PIECE_CHARACTERS) return;
      pieces.push(new Blob([text]));
      text = '';
    },
    end(): Blob {
      pieces = [...pieces, new Blob([text])];
      return new Blob(pieces, { type: 'text/csv;charset=utf-8' });
    },
  };
}
