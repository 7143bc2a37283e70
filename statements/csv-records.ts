import type { Line } from './lines.js';
import type { RecordReader, StatementRecord } from './records.js';

/** A quote that is still open after this many lines counts as a stray quote. */
const MOST_LINES_OF_A_RECORD = 100;

const OPENING_QUOTE = / *=?"/y;

/**
 * Records of RFC 4180. A quoted field may hold line breaks, and `="K"`, with which programs keep a spreadsheet from reading a number, is K.
 * Where quotes make no sense, the line is a problem, and the next line is read anew: one bad note must not hide the payments after it.
 */
export function createCsvRecords(delimiter: string): RecordReader {
  /** The lines of a record whose quote is open. */
  let open: Line[] = [];
  let isOpen = false;

  function fieldsOf(text: string): string[] | undefined {
    const fields: string[] = [];
    for (let start = 0; start <= text.length; ) {
      const quoted = quotedField(text, start);
      const end = endOfField(text, quoted?.end ?? start);
      const plain = text.slice(quoted?.end ?? start, end);
      const isWellFormed = quoted ? plain.trim() === '' : !plain.includes('"');
      if (!isWellFormed) return undefined;
      fields.push(quoted?.text ?? plain);
      start = end + delimiter.length;
    }
    return fields;
  }

  function endOfField(text: string, start: number): number {
    const next = text.indexOf(delimiter, start);
    return next < 0 ? text.length : next;
  }

  function add(line: Line): StatementRecord[] {
    if (open.length === 0 && isBlank(line.text)) return [{ line: line.number, lines: 1, skipped: true }];
    open.push(line);
    const [first = line] = open;
    if (hasOddQuotes(line.text)) isOpen = !isOpen;
    if (isOpen && open.length < MOST_LINES_OF_A_RECORD) return [];
    const fields = isOpen ? undefined : fieldsOf(textOf(open));
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

/** The quoted field that begins at `start`, and where it ends. A doubled quote belongs to its text. */
function quotedField(text: string, start: number): { text: string; end: number } | undefined {
  OPENING_QUOTE.lastIndex = start;
  if (!OPENING_QUOTE.test(text)) return undefined;
  const opened = OPENING_QUOTE.lastIndex;
  let closed = text.indexOf('"', opened);
  while (text[closed + 1] === '"') closed = text.indexOf('"', closed + 2);
  return { text: withoutFormula(text.slice(opened, closed).replaceAll('""', '"')), end: closed + 1 };
}

function withoutFormula(text: string): string {
  return /^="([^"]*)"$/.exec(text)?.[1] ?? text;
}

function hasOddQuotes(text: string): boolean {
  let isOdd = false;
  for (let index = text.indexOf('"'); index >= 0; index = text.indexOf('"', index + 1)) isOdd = !isOdd;
  return isOdd;
}
