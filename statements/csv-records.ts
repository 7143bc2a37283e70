import { readAmount } from './amounts.js';
import { csvFields, hasOddQuotes } from './csv-fields.js';
import type { Line } from './lines.js';
import type { RecordReader, StatementRecord } from './records.js';

/** A quote that is still open after this many lines counts as a stray quote. */
const MOST_LINES_OF_A_RECORD = 100;

const STRAY_QUOTE =
  'A quote is not closed, or stands inside a field. A field with quotes stands in quotes, and each of its own is doubled.';
const QUOTED_PAYMENT =
  'A quote that begins in this line encloses what looks like another payment. A field with quotes stands in quotes, and each of its own is doubled.';

/** The form of a line that looks like a payment. */
export interface PaymentShape {
  /** How many fields it has. */
  readonly fields: number;
  /** The indexes of the columns that may have its amount. */
  readonly amounts: readonly number[];
}

/**
 * Records of RFC 4180, in the loose form that programs of banks write. A quoted field may hold line breaks. If quotes make no sense, the
 * line is a problem, and the next line is read anew: one bad note must not hide the payments after it. The same holds if a field has a line
 * that is a payment by its `shape`, because two stray quotes enclose it.
 */
export function createCsvRecords(delimiter: string, shape?: PaymentShape): RecordReader {
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
    if (fields === undefined) return readAnew(STRAY_QUOTE);
    if (open.length > 1 && open.some(({ text }, index) => hasQuotedPayment(text, index > 0)))
      return readAnew(QUOTED_PAYMENT);
    const lines = open.length;
    open = [];
    return [{ line: first.number, lines, fields: fields.map(({ text }) => text) }];
  }

  /** A blank line, or one of separators alone. */
  function isBlank(text: string): boolean {
    return text.replaceAll(delimiter, '').trim() === '';
  }

  /** True if a line has the amount of a payment inside of quotes. `isWithin`: whether a quote is open where the line begins. */
  function hasQuotedPayment(text: string, isWithin: boolean): boolean {
    if (!shape) return false;
    const cells = text.split(delimiter);
    if (cells.length < shape.fields || cells.slice(shape.fields).some((cell) => cell !== '')) return false;
    return shape.amounts.some((index) => {
      const isQuoted = isWithin !== hasOddQuotes(cells.slice(0, index).join(''));
      return isQuoted && !('problem' in readAmount(cells[index] ?? ''));
    });
  }

  /** Reports the first open line as the problem, and reads the others again. */
  function readAnew(problem: string): StatementRecord[] {
    const [first, ...others] = open;
    open = [];
    isOpen = false;
    if (!first) return [];
    return [{ line: first.number, lines: 1, problem, text: first.text }, ...others.flatMap(add)];
  }

  function end(): StatementRecord[] {
    const records: StatementRecord[] = [];
    while (open.length > 0) records.push(...readAnew(STRAY_QUOTE));
    return records;
  }

  return { add, end };
}

function textOf(lines: readonly Line[]): string {
  return lines.length === 1 ? (lines[0]?.text ?? '') : lines.map(({ text }) => text).join('\n');
}
