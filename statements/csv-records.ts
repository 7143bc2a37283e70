import { csvFields, hasOddQuotes } from './csv-fields.js';
import type { Line } from './lines.js';
import type { RecordReader, StatementRecord } from './records.js';

/** A quote that is still open after this many lines counts as a stray quote. */
const MOST_LINES_OF_A_RECORD = 100;

/**
 * Records of RFC 4180, in the loose form that programs of banks write. A quoted field may hold line breaks. If quotes make no sense, the
 * line is a problem, and the next line is read anew: one bad note must not hide the payments after it.
 */
export function createCsvRecords(delimiter: string): RecordReader {
  const form = { delimiter, isLoose: true };
  /** The lines of a record whose quote is open. */
  let open: Line[] = [];
  let isOpen = false;

  function add(line: Line): StatementRecord[] {
    if (open.length === 0 && isBlank(line.text)) return [{ line: line.number, lines: 1, skipped: true }];
    open.push(line);
    const [first = line] = open;
    if (hasOddQuotes(line.text)) isOpen = !isOpen;
    if (isOpen && open.length < MOST_LINES_OF_A_RECORD) return [];
    const fields = isOpen ? undefined : csvFields(textOf(open), form);
    if (fields === undefined) return readAnew();
    const lines = open.length;
    open = [];
    return [{ line: first.number, lines, fields: fields.map(({ text }) => text) }];
  }

  /** A blank line, or one of separators alone. */
  function isBlank(text: string): boolean {
    return text.replaceAll(delimiter, '').trim() === '';
  }

  /** Reports the first open line as the problem, and reads the others again. */
  function readAnew(): StatementRecord[] {
    const [first, ...others] = open;
    open = [];
    isOpen = false;
    if (!first) return [];
    const problem =
      'A quote is not closed, or stands inside a field. A field with quotes stands in quotes, and each of its own is doubled.';
    return [{ line: first.number, lines: 1, problem, text: first.text }, ...others.flatMap(add)];
  }

  function end(): StatementRecord[] {
    const records: StatementRecord[] = [];
    while (open.length > 0) records.push(...readAnew());
    return records;
  }

  return { add, end };
}

function textOf(lines: readonly Line[]): string {
  return lines.length === 1 ? (lines[0]?.text ?? '') : lines.map(({ text }) => text).join('\n');
}
