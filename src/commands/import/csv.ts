import { UsageError } from '#idempay/cli/usage.js';
import { csvFields } from '#idempay/statements/csv-fields.js';
import { type Columns, columnsOf } from './columns.js';
import { contentOf, type Line, LONGEST_LINE_BYTES } from './lines.js';
import { isText, type Row, readCsvRow, rejected } from './rows.js';

/** A row whose quotes are still open after this many lines is taken to have a stray quote. */
const MOST_LINES = 100;
const QUOTE = 0x22;
const WRONG_QUOTES =
  'Its quotes are wrong: a cell with quotes begins and ends with one, without a blank outside, and each one inside is doubled.';

/**
 * Reads every line of the input, in a row or between rows. The first line that is not blank is the header. A quoted cell may hold line
 * breaks (RFC 4180), so a line inside a note is never read as a row. If quotes are unclosed or misplaced, only the first line is rejected,
 * and reading starts again at the next line. Throws UsageError if the header is missing or wrong.
 */
export async function* csvRows(
  lines: AsyncIterator<Line>,
  { delimiter, ignored }: { readonly delimiter: string; readonly ignored: readonly string[] },
): AsyncGenerator<Row> {
  let columns: Columns | undefined;
  for await (const { place, cells, problem } of recordsOf(lines, delimiter)) {
    if (cells?.every((cell) => cell.trim() === '')) {
      yield { ...place, content: { state: 'no row' } };
    } else if (columns === undefined) {
      if (!cells) throw new UsageError(`Line ${place.line} is no header in CSV and UTF-8. ${problem}`);
      columns = columnsOf(cells, delimiter, ignored);
      yield { ...place, content: { state: 'no row' } };
    } else {
      yield { ...place, content: cells ? readCsvRow(cells, columns) : rejected(problem) };
    }
  }
  if (columns === undefined) throw new UsageError('The input is empty.');
}

/** Lines that belong together. Without cells if they cannot be read. */
interface CsvRecord {
  readonly place: Omit<Row, 'content'>;
  readonly cells: readonly string[] | undefined;
  readonly problem: string;
}

async function* recordsOf(lines: AsyncIterator<Line>, delimiter: string): AsyncGenerator<CsvRecord> {
  let waiting: Line[] = [];
  const next = async (): Promise<Line | undefined> => {
    const first = waiting.shift();
    if (first) return first;
    const { done, value } = await lines.next();
    return done ? undefined : value;
  };
  for (let line = await next(); line; line = await next()) {
    const parts = await linesOfRecord(line, next);
    const place = placeOf(parts);
    const content = contentOf({ ...line, bytes: place.bytes });
    const isWhole = isText(content);
    const cells = isWhole ? cellsOf(content, delimiter) : undefined;
    if (!cells) waiting = [...parts.slice(1), ...waiting];
    yield {
      place: cells ? place : placeOf([line]),
      cells,
      problem: isWhole ? WRONG_QUOTES : 'It is not valid UTF-8.',
    };
  }
}

/** The line, and those after it until its quotes are closed. */
async function linesOfRecord(first: Line, next: () => Promise<Line | undefined>): Promise<readonly Line[]> {
  const parts = [first];
  let quotes = quotesIn(first.bytes);
  let bytes = first.bytes.length;
  while (quotes % 2 === 1 && parts.length < MOST_LINES && bytes < LONGEST_LINE_BYTES) {
    const more = await next();
    if (!more) break;
    parts.push(more);
    quotes += quotesIn(more.bytes);
    bytes += more.bytes.length;
  }
  return parts;
}

function placeOf(parts: readonly Line[]): Omit<Row, 'content'> {
  const [first, last] = [parts[0] as Line, parts.at(-1) as Line];
  const bytes = parts.length === 1 ? first.bytes : Buffer.concat(parts.map((part) => part.bytes));
  return { line: first.number, bytes, end: last.end, nextLine: last.number + 1 };
}

/**
 * The cells of one record, without the blanks around them; text in quotes keeps its blanks. Undefined if the quotes are wrong. Most files
 * have none, and their lines are only split.
 */
export function cellsOf(content: Buffer, delimiter: string): readonly string[] | undefined {
  const text = content.toString('utf8');
  const quotes = quotesIn(content);
  if (quotes === 0) return text.split(delimiter).map((cell) => cell.trim());
  if (quotes % 2 === 1) return undefined;
  const fields = csvFields(text, { delimiter, isLoose: false });
  return fields?.map((field) => (field.isQuoted ? field.text : field.text.trim()));
}

function quotesIn(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(QUOTE); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) count += 1;
  return count;
}
