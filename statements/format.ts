import { readAmount } from './amounts.js';
import { type Columns, recognisedColumns, recognisedCount } from './columns.js';
import { createCsvRecords } from './csv-records.js';
import { createNdjsonRecords, objectIn, type RecordReader, type StatementRecord } from './records.js';
import { StatementError } from './statement-error.js';

export type StatementFormat =
  | {
      readonly kind: 'CSV';
      readonly delimiter: string;
      /** The number of the line that has the names of the columns; lines before it are skipped. */
      readonly headerLine: number;
      readonly names: readonly string[];
    }
  | { readonly kind: 'NDJSON'; readonly names: readonly string[] };

export const DELIMITERS = [',', ';', '\t', '|'] as const;
/** A bank writes no more lines before the header. */
const LINES_BEFORE_HEADER = 40;
const SAMPLE = 3;
/** Whom a line is about, its amount and its currency. */
const KNOWN_OF_A_STATEMENT = 3;
/** The first line of a file for Excel. A quote separates nothing, because it would end a field and begin the next one. */
const SEPARATOR = /^\ufeff?sep=([^"])\s*$/i;

export interface StatementHead {
  readonly format: StatementFormat;
  /** As the names and all of the given lines say. */
  readonly columns: Columns;
  /** The first payments, for a person who assigns columns. */
  readonly sample: readonly (readonly string[])[];
}

/** The form of a file, as its first lines show it. Throws `StatementError` for a file that is no statement. */
export function readHead(lines: readonly string[], delimiter?: string): StatementHead {
  const first = lines.find((line) => line.trim() !== '');
  if (first === undefined) throw new StatementError('The file is empty. Choose the statement of the processor.');
  const start = first.trimStart()[0];
  if (start === '[') {
    throw new StatementError(
      'The file is one JSON text. Export the statement as CSV, or with one JSON object for each line.',
    );
  }
  const format = start === '{' ? ndjsonOf(lines.filter((line) => line.trim() !== '')) : csvOf(lines, delimiter);
  const reader = recordsOf(format);
  const records = lines.flatMap((text, index) => reader.add({ number: index + 1, text }));
  const rows = records.flatMap((record) => ('fields' in record ? [record.fields] : []));
  return { format, columns: recognisedColumns(format.names, rows), sample: rows.slice(0, SAMPLE) };
}

const SYMBOLS: Readonly<Record<string, string>> = { '€': 'EUR', '£': 'GBP' };
/** `Amount (NET)` names no currency. */
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

/** The currency in the name of the column of amounts, such as `Betrag (€)`. Undefined if the name has none. */
export function currencyOfAmounts({ names }: StatementFormat, { amount }: Columns): string | undefined {
  const [, text = ''] = /\(([A-Z]{3}|[€£])\)$/.exec(names[amount ?? -1] ?? '') ?? [];
  return SYMBOLS[text] ?? (CURRENCIES.has(text) ? text : undefined);
}

/**
 * Reads the payments of a statement. The header of a CSV file and the lines before it are skipped. `chosen`: the columns; if omitted, the ones
 * that their names say.
 */
export function recordsOf(format: StatementFormat, chosen?: Columns): RecordReader {
  if (format.kind === 'NDJSON') return createNdjsonRecords(format.names);
  const { delimiter, headerLine, names } = format;
  const { amount, credit, debit } = chosen ?? recognisedColumns(names);
  const amounts = [amount, credit, debit].filter((index) => index !== undefined);
  const records = createCsvRecords(delimiter, { fields: names.length, amounts });
  const payments = (found: StatementRecord[]) => found.map(ofRightLength);

  function ofRightLength(record: StatementRecord): StatementRecord {
    if (!('fields' in record)) return record;
    const { line, lines, fields } = record;
    const count = names.length;
    if (line === headerLine) return { line, lines, skipped: true };
    if (line < headerLine) {
      // A file that was sorted has payments there, a bank's file has something else.
      const hasAmount = amounts.some((index) => !('problem' in readAmount(fields[index] ?? '')));
      const isPayment =
        hasAmount && fields.length === count && fields.filter((field) => field.trim() !== '').length > 2;
      const problem = `It stands before the names of the columns, which are in line ${headerLine}.`;
      return isPayment ? { line, lines, problem, text: fields.join(delimiter) } : { line, lines, skipped: true };
    }
    // Some programs end each line with a delimiter.
    if (fields.length === count || (fields.length > count && fields.slice(count).every((field) => field === '')))
      return record;
    const problem = `It has ${fields.length} fields, and the line of the names has ${count}.`;
    return { line, lines, problem, text: fields.join(delimiter) };
  }

  return {
    add(line) {
      if (line.number >= headerLine) return payments(records.add(line));
      // A quote that is open there must not swallow the header.
      const [record] = createCsvRecords(delimiter).add(line);
      const isWhole = record !== undefined && 'fields' in record;
      return isWhole ? [ofRightLength(record)] : [{ line: line.number, lines: 1, skipped: true }];
    },
    end: () => payments(records.end()),
  };
}

function ndjsonOf(lines: readonly string[]): StatementFormat {
  // Objects may leave out members.
  const names = new Set(lines.flatMap((line) => Object.keys(objectIn(line) ?? {})));
  if (names.size === 0) {
    throw new StatementError(
      'The first line begins like JSON and is no whole JSON object. Put one object on each line.',
    );
  }
  // The first refund may come late, and only its type tells it from a payment.
  const isStatement = recognisedCount([...names]) >= KNOWN_OF_A_STATEMENT;
  if (isStatement && recognisedColumns([...names]).type === undefined) names.add('type');
  return { kind: 'NDJSON', names: [...names] };
}

/** The line and the delimiter with the most names that are known; without any the first line with the most columns. */
function csvOf(lines: readonly string[], chosen: string | undefined): StatementFormat {
  const stated = SEPARATOR.exec(lines[0] ?? '')?.[1];
  const first = stated === undefined ? 0 : 1;
  const only = chosen ?? stated;
  const headers = (only === undefined ? DELIMITERS : [only]).flatMap((delimiter) =>
    lines
      .slice(first, LINES_BEFORE_HEADER)
      .map((text, index) => headerIn(text, first + index + 1, delimiter))
      .filter((header) => header !== undefined),
  );
  const [header] = headers.sort(
    (one, other) =>
      other.known - one.known || one.headerLine - other.headerLine || other.names.length - one.names.length,
  );
  if (!header) {
    throw new StatementError(
      'The first line has no names of columns. Choose a CSV file with a header, or one JSON object for each line.',
    );
  }
  const { known, ...format } = header;
  return { kind: 'CSV', ...format };
}

/** Undefined if the line is not divided by the delimiter. */
function headerIn(text: string, headerLine: number, delimiter: string) {
  const [record] = createCsvRecords(delimiter).add({ number: headerLine, text: text.replace(/^\ufeff/, '') });
  if (!record || !('fields' in record) || record.fields.length < 2) return undefined;
  const names = record.fields.map((name) => name.trim());
  return { delimiter, headerLine, names, known: recognisedCount(names) };
}
