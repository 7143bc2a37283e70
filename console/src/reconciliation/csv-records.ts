import type { Line } from './lines.js';
import type { RecordReader, StatementRecord } from './statement-records.js';

/** A quote that is still open after this many lines counts as a stray quote. */
const MOST_LINES_OF_A_RECORD = 100;

/**
 * Records of RFC 4180. A quoted field may hold line breaks. Where quotes make no sense, the line is a problem, and the next line is read
 * anew: one bad note must not hide the payments after it.
 */
export function createCsvRecords(delimiter: string): RecordReader {
  const FIELD = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${escaped(delimiter)}]*))(${escaped(delimiter)}|$)`, 'gy');
  /** The lines of a record whose quote is open. */
  let open: Line[] = [];

  function fieldsOf(text: string): string[] | undefined {
    const fields: string[] = [];
    FIELD.lastIndex = 0;
    for (;;) {
      const match = FIELD.exec(text);
      if (!match) return undefined;
      const [, quoted, plain = '', end] = match;
      fields.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      if (end === '') return fields;
    }
  }

  function add(line: Line): StatementRecord[] {
    if (open.length === 0 && line.text.trim() === '') return [];
    open.push(line);
    const [first = line] = open;
    const text = open.length === 1 ? line.text : open.map((part) => part.text).join('\n');
    const isOpen = hasOpenQuote(text);
    if (isOpen && open.length < MOST_LINES_OF_A_RECORD) return [];
    const fields = isOpen ? undefined : fieldsOf(text);
    if (fields === undefined) return readAnew();
    open = [];
    return [{ line: first.number, fields }];
  }

  /** Reports the first open line as the problem, and reads the others again. */
  function readAnew(): StatementRecord[] {
    const [first, ...others] = open;
    open = [];
    if (!first) return [];
    const problem =
      'A quote is not closed, or stands inside a field. A field with quotes stands in quotes, and each of its own is doubled.';
    return [{ line: first.number, problem }, ...others.flatMap(add)];
  }

  function end(): StatementRecord[] {
    const records: StatementRecord[] = [];
    while (open.length > 0) records.push(...readAnew());
    return records;
  }

  return { add, end };
}

function hasOpenQuote(text: string): boolean {
  let isOpen = false;
  for (let index = text.indexOf('"'); index >= 0; index = text.indexOf('"', index + 1)) isOpen = !isOpen;
  return isOpen;
}

function escaped(delimiter: string): string {
  return delimiter === '|' ? '\\|' : delimiter;
}
