import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { safeJson } from '#idempay/platform/safe-json.js';
import { spreadsheetText } from '#idempay/statements/spreadsheet-text.js';
import { UsageError } from '../usage.js';
import { textOf } from './results.js';
import { write } from './terminal.js';
import { writeWhole } from './whole-file.js';

type Format = 'ndjson' | 'csv';

export interface ExportOptions {
  readonly format?: Format | undefined;
  readonly output?: string | undefined;
  /** For a spreadsheet: with a byte order mark, and with no text that it would run as a formula. */
  readonly spreadsheet?: true | undefined;
}

/** A file that is named as CSV would mislead the one who opens it if it had JSON. */
export const formatOf = ({ format, output }: ExportOptions): Format =>
  format ?? (output?.toLowerCase().endsWith('.csv') ? 'csv' : 'ndjson');

const CHUNK_ROWS = 500;
/** Kept in quotes, so that an import gives the same account. */
const OUTER_BLANK = /^\s|\s$/;

/**
 * Writes every row as it comes, in little memory. Amounts are the text of the service: payments have strings, and the numbers of
 * transactions have at most 15 digits, which every reader of JSON numbers gives back as they were (rule T2). Without `--output`
 * the rows go to standard output; with it the file appears when it is whole.
 */
export async function exportRows<Row extends object>(
  rows: AsyncIterable<Row>,
  members: readonly (keyof Row & string)[],
  options: ExportOptions,
): Promise<void> {
  const { output, spreadsheet } = options;
  const format = formatOf(options);
  if (spreadsheet && format !== 'csv') throw new UsageError('--spreadsheet belongs to --format csv.');
  const counts = { rows: 0, formulas: 0 };
  const toText = format === 'csv' ? await csvOf(members, spreadsheet) : ndjson;
  const looksForFormulas = format === 'csv' && !spreadsheet;
  const texts = chunksOf(rows, toText, (row) => {
    counts.rows += 1;
    if (looksForFormulas && members.some((member) => isFormula(row[member]))) counts.formulas += 1;
  });
  if (output !== undefined) {
    await writeWhole(output, async (part) => {
      const file = createWriteStream(part, { flags: 'wx', mode: 0o600, flush: true });
      const closed = new Promise<void>((resolve) => file.on('close', resolve));
      // A file that is still being opened when the rows fail would appear after the part was removed.
      await pipeline(texts, file).finally(() => closed);
    });
  } else await writeParts(texts);
  if (process.stderr.isTTY || output !== undefined) console.error(`${counts.rows} rows.`);
  if (counts.formulas > 0) {
    console.error(
      `${counts.formulas} rows have a text that a spreadsheet may run as a formula. --spreadsheet writes it so that none does.`,
    );
  }
}

/** A write for each row would take most of the time. */
async function* chunksOf<Row>(
  rows: AsyncIterable<Row>,
  toText: (rows: readonly Row[], isFirst: boolean) => string,
  look: (row: Row) => void,
): AsyncGenerator<string> {
  let chunk: Row[] = [];
  let isFirst = true;
  for await (const row of rows) {
    look(row);
    chunk.push(row);
    if (chunk.length < CHUNK_ROWS) continue;
    yield toText(chunk, isFirst);
    chunk = [];
    isFirst = false;
  }
  yield toText(chunk, isFirst);
}

const ndjson = (rows: readonly unknown[]): string => rows.map((row) => `${safeJson(row)}\n`).join('');

async function csvOf(members: readonly string[], spreadsheet = false) {
  const { stringify } = await import('csv-stringify/sync');
  return (rows: readonly object[], isFirst: boolean): string =>
    stringify([...rows], {
      // Without it, spreadsheets read UTF-8 as the machine's old encoding.
      bom: isFirst && spreadsheet,
      header: isFirst,
      columns: [...members],
      quoted_match: OUTER_BLANK,
      // Without a cast, csv-stringify writes objects as JSON as well.
      ...(spreadsheet && { cast: SAFE_CASTS }),
    });
}

const SAFE_CASTS = { string: spreadsheetText, object: (value: unknown) => spreadsheetText(textOf(value)) };

function isFormula(value: unknown): boolean {
  if (typeof value !== 'string' && typeof value !== 'object') return false;
  const text = textOf(value);
  return spreadsheetText(text) !== text;
}

/** Printed lines cannot be taken back, so the error says that they are a part. */
async function writeParts(texts: AsyncIterable<string>): Promise<void> {
  let isBegun = false;
  try {
    for await (const text of texts) {
      isBegun = true;
      await write(text);
    }
  } catch (error) {
    if (isBegun) (error as Error).message += '\nThe rows on standard output are only a part of the export.';
    throw error;
  }
}
