import { createCsvRecords } from './csv-records.js';
import { StatementError } from './statement-error.js';
import { createNdjsonRecords, objectIn, type RecordReader, type StatementRecord } from './statement-records.js';

export type StatementFormat =
  /** The first record has the names of the columns. */
  | { readonly kind: 'CSV'; readonly delimiter: string; readonly names: readonly string[] }
  | { readonly kind: 'NDJSON'; readonly names: readonly string[] };

const DELIMITERS = [',', ';', '\t', '|'] as const;
/** Objects may leave out members: so many lines are looked at for their names. */
const LINES_OF_NAMES = 50;
const SAMPLE = 3;

export interface StatementHead {
  readonly format: StatementFormat;
  /** The first payments, for a person who assigns columns. */
  readonly sample: readonly (readonly string[])[];
}

/** What the first lines of a file show of the rest. Throws `StatementError` for a file that is no statement. */
export function readHead(lines: readonly string[]): StatementHead {
  const written = lines.filter((line) => line.trim() !== '');
  const [first] = written;
  if (first === undefined) throw new StatementError('The file is empty. Choose the statement of the processor.');
  const start = first.trimStart()[0];
  if (start === '[') {
    throw new StatementError(
      'The file is one JSON text. Export the statement as CSV, or with one JSON object for each line.',
    );
  }
  const format = start === '{' ? ndjsonOf(written) : csvOf(written);
  const reader = recordsOf(format);
  const records = written.flatMap((text, index) => reader.add({ number: index + 1, text }));
  const sample = records.flatMap((record) => ('fields' in record ? [record.fields] : []));
  return { format, sample: sample.slice(0, SAMPLE) };
}

/** Its payments; the header of a CSV file is left out. */
export function recordsOf(format: StatementFormat): RecordReader {
  if (format.kind === 'NDJSON') return createNdjsonRecords(format.names);
  const records = createCsvRecords(format.delimiter);
  let isHeader = true;
  const payments = (found: StatementRecord[]) => {
    if (!isHeader || found.length === 0) return found.map(ofRightLength);
    isHeader = false;
    return found.slice(1).map(ofRightLength);
  };

  function ofRightLength(record: StatementRecord): StatementRecord {
    if ('problem' in record) return record;
    const { line, fields } = record;
    const count = format.names.length;
    // Some programs end each line with a delimiter.
    if (fields.length === count || (fields.length > count && fields.slice(count).every((field) => field === '')))
      return record;
    return { line, problem: `It has ${fields.length} fields, and the first line has ${count}.` };
  }

  return { add: (line) => payments(records.add(line)), end: () => payments(records.end()) };
}

function ndjsonOf(lines: readonly string[]): StatementFormat {
  const names = new Set(lines.slice(0, LINES_OF_NAMES).flatMap((line) => Object.keys(objectIn(line) ?? {})));
  if (names.size === 0) {
    throw new StatementError(
      'The first line begins like JSON and is no whole JSON object. Put one object on each line.',
    );
  }
  return { kind: 'NDJSON', names: [...names] };
}

/** The delimiter that gives the header the most columns. */
function csvOf(lines: readonly string[]): StatementFormat {
  const headers = DELIMITERS.map((delimiter) => ({ delimiter, names: headerOf(delimiter, lines) }));
  const best = headers.reduce((one, other) => (other.names.length > one.names.length ? other : one));
  if (best.names.length < 2) {
    throw new StatementError(
      'The first line has no names of columns. Choose a CSV file with a header, or one JSON object for each line.',
    );
  }
  return { kind: 'CSV', ...best };
}

function headerOf(delimiter: string, lines: readonly string[]): readonly string[] {
  const reader = createCsvRecords(delimiter);
  for (const [index, text] of lines.entries()) {
    const [record] = reader.add({ number: index + 1, text });
    if (record) return 'fields' in record ? record.fields.map((name) => name.trim()) : [];
  }
  return [];
}
