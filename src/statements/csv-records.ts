import type { Line } from './lines.js';
import type { RecordReader, StatementRecord } from './records.js';

/** A quote that is still open after this many lines counts as a stray quote. */
const MOST_LINES_OF_A_RECORD = 100;

/**
 * Records of RFC 4180. A quoted field may hold line breaks, and `="K"`, with which programs keep a spreadsheet from reading a number, is K.
 * Where quotes make no sense, the line is a problem, and the next line is read anew: one bad note must not hide the payments after it.
 */
export function createCsvRecords(delimiter: string): RecordReader {
  const FIELD = new RegExp(`(?: *=?"((?:[^"]|"")*)" *|([^"${escaped(delimiter)}]*))(${escaped(delimiter)}|$)`, 'gy');
  /** The lines of a record whose quote is open. */
  let open: Line[] = [];

  function fieldsOf(text: string): string[] | undefined {
    const fields: string[] = [];
    FIELD.lastIndex = 0;
    for (;;) {
      const match = FIELD.exec(text);
      if (!match) return undefined;
      const [, quoted, plain = '', end] = match;
      fields.push(quoted === undefined ? plain : withoutFormula(quoted.replaceAll('""', '"')));
      if (end === '') return fields;
    }
  }

  function add(line: Line): StatementRecord[] {
    if (open.length === 0 && isBlank(line.text)) return [{ line: line.number, lines: 1, skipped: true }];
    open.push(line);
    const [first = line] = open;
    const text = textOf(open);
    const isOpen = hasOpenQuote(text);
    if (isOpen && open.length < MOST_LINES_OF_A_RECORD) return [];
    const fields = isOpen ? undefined : fieldsOf(text);
    if (fields === undefined) return readAnew();
    const lines = open.length;
    open = [];
    return [{ line: first.number, lines, fields }];
  }

  /** A blank line, or one of separators alone. */
  function isBlank(text: string): boolean {
    return text.replaceAll(delimiter, '').trim() === '';
  }

  /** Reports the first open line as the problem, and reads the others again. */
  function readAnew(): StatementRecord[] {
    const [first, ...others] = open;
    open = [];
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

function withoutFormula(text: string): string {
  return /^="([^"]*)"$/.exec(text)?.[1] ?? text;
}

function hasOpenQuote(text: string): boolean {
  let isOpen = false;
  for (let index = text.indexOf('"'); index >= 0; index = text.indexOf('"', index + 1)) isOpen = !isOpen;
  return isOpen;
}

/** A file may name any character (`sep=*`). */
function escaped(delimiter: string): string {
  return delimiter.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
