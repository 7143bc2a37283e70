import { safeJson } from '#idempay/platform/safe-json.js';
import { clipped } from '#idempay/statements/texts.js';
import { type Colour, harmless, OutputError, painted, report, write } from './terminal.js';

export interface OutputOptions {
  readonly json?: true | undefined;
}

export interface Column<Row> {
  readonly title: string;
  readonly of: (row: Row) => string | number | null;
  /** The most characters that the table of a terminal shows. If omitted, all. */
  readonly mostInTable?: number;
}

/** The most rows of a table: it has to see all of them before it knows its widths. */
export const TABLE_ROWS = 50;

/** The colours of the states of payments and transactions. */
const COLOURS: Readonly<Record<string, Colour>> = {
  COMPLETED: 'green',
  DECLINED: 'red',
  FAILED: 'red',
  BLOCKED: 'red',
  FLAGGED: 'yellow',
  ON_HOLD: 'yellow',
  PROCESSING: 'yellow',
};

/**
 * Results on standard output. With `--json`: one JSON document on each line. On a terminal: a table. Else: the cells of each row with
 * tabs between them, without a header, for `cut` and `awk`.
 */
export async function printRows<Row extends object>(
  rows: Iterable<Row> | AsyncIterable<Row>,
  columns: readonly Column<Row>[],
  { json }: OutputOptions,
): Promise<void> {
  if (json) {
    for await (const row of rows) await write(`${safeJson(row)}\n`);
  } else if (process.stdout.isTTY) {
    const all: Row[] = [];
    for await (const row of rows) all.push(row);
    if (all.length > 0) await printTable(all, columns);
    else console.error('There are none.');
  } else {
    for await (const row of rows) await write(`${columns.map((column) => cell(column, row)).join('\t')}\n`);
  }
}

/** One thing: its members below each other. */
export function printRecord(record: object, options: OutputOptions): Promise<void> {
  return printDone(linesOf(record, options));
}

/** Prints what a command has done. If standard output cannot be written, standard error gets it, and the error says that it was done. */
export async function printDone(lines: readonly string[]): Promise<void> {
  try {
    for (const line of lines) await write(`${line}\n`);
  } catch (error) {
    if (!(error instanceof OutputError)) throw error;
    for (const line of lines) await report(line);
    error.message += ' The command has done what it was asked for; its result is above.';
    throw error;
  }
}

/** As many as `--limit` says: on a terminal by default as many as a person reads, else all of them. Says when there are more. */
export async function* firstOf<Row>(
  rows: AsyncIterable<Row>,
  limit: number | undefined,
  { json }: { readonly json?: true | undefined },
): AsyncGenerator<Row> {
  const most = limit ?? (process.stdout.isTTY && !json ? TABLE_ROWS : 0);
  let count = 0;
  for await (const row of rows) {
    if (most > 0 && count === most) {
      console.error(`There are more than ${most}: --limit says how many to show, and 0 shows all of them.`);
      return;
    }
    count += 1;
    yield row;
  }
}

function linesOf(record: object, { json }: OutputOptions): string[] {
  if (json) return [safeJson(record)];
  const members = Object.entries(record);
  const width = process.stdout.isTTY ? Math.max(...members.map(([name]) => name.length)) + 2 : 0;
  return members.map(([name, value]) => {
    const text = harmless(textOf(value));
    return `${width > 0 ? painted(name.padEnd(width), 'bold') : `${name}\t`}${painted(text, COLOURS[text])}`;
  });
}

async function printTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): Promise<void> {
  const { default: Table } = await import('cli-table3');
  const sides = Object.fromEntries(LINES.map((line) => [line, '']));
  const table = new Table({
    head: columns.map(({ title }) => painted(title, 'bold')),
    chars: { ...sides, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) {
    table.push(
      columns.map((column) => {
        const text = clipped(cell(column, row), column.mostInTable ?? Number.POSITIVE_INFINITY);
        return painted(text, COLOURS[text]);
      }),
    );
  }
  await write(`${table.toString()}\n`);
}

/** The border characters of a table, all left out, so that text copied from a terminal has only the cells. */
const LINES = [
  ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
  ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'],
];

function cell<Row>({ of }: Column<Row>, row: Row): string {
  return harmless(String(of(row) ?? ''));
}

/** The value as text: an object, such as the metadata of a payment, as JSON. */
export function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
}
