import { parse } from 'csv-parse/sync';
import { UsageError } from '../usage.js';
import { contentOf, type Line } from './lines.js';
import { GIVEN_MEMBERS, isKnownMember, isText, READ_MEMBERS, type Row, readCsvRow, rejected } from './rows.js';

/** A row whose quotes are still open after this many lines is taken to have a stray quote. */
const MOST_LINES = 100;
const QUOTE = 0x22;

/** The columns that the header names. Throws UsageError where a column is missing, unknown or repeated. */
export function columnsOf(header: Line, delimiter: string, ignored: readonly string[]): string[] {
  const content = contentOf(header);
  const cells = isText(content) ? cellsOf(content, delimiter) : undefined;
  if (!cells) throw new UsageError('The first line is no header in CSV and UTF-8.');
  const columns = cells.map((cell) => cell.trim());
  const required = READ_MEMBERS.filter((name) => name !== 'status');
  const missing = required.filter((name) => !columns.includes(name));
  if (missing.length > 0) {
    throw new UsageError(
      `The header must name ${required.join(', ')}, and may name status, ${GIVEN_MEMBERS.join(', ')}. It lacks ${missing.join(', ')}. Where cells are not separated by '${delimiter}', give --delimiter.`,
    );
  }
  const unknown = columns.find((name) => !isKnownMember(name, ignored));
  if (unknown !== undefined) {
    throw new UsageError(
      `The column '${unknown}' is not known. Correct its name, or leave it out with --ignore ${unknown}.`,
    );
  }
  const twice = columns.find((name, index) => columns.indexOf(name) !== index);
  if (twice !== undefined) throw new UsageError(`The header names '${twice}' twice.`);
  return columns;
}

/**
 * The rows after the header. A quoted cell may hold line breaks (RFC 4180), so a line inside a note is never read as a row. Where quotes
 * are unclosed or misplaced, only the first line is rejected, and reading starts again at the next line.
 */
export async function* csvRows(
  lines: AsyncIterator<Line>,
  columns: readonly string[],
  delimiter: string,
): AsyncGenerator<Row> {
  let waiting: Line[] = [];
  const next = async (): Promise<Line | undefined> => {
    const first = waiting.shift();
    if (first) return first;
    const { done, value } = await lines.next();
    return done ? undefined : value;
  };
  for (let line = await next(); line; line = await next()) {
    if (contentOf(line).length === 0) {
      yield { ...placeOf([line]), content: { state: 'empty' } };
      continue;
    }
    const parts = await linesOfRow(line, next);
    const place = placeOf(parts);
    const row = contentOf({ ...line, bytes: place.bytes });
    const isWhole = isText(row);
    const cells = isWhole && quotesIn(row) % 2 === 0 ? cellsOf(row, delimiter) : undefined;
    if (cells) {
      yield { ...place, content: readCsvRow(cells, columns) };
      continue;
    }
    waiting = [...parts.slice(1), ...waiting];
    const reason = isWhole
      ? 'Its quotes are wrong: a cell with quotes begins and ends with one, and each one inside is doubled.'
      : 'It is not valid UTF-8.';
    yield { ...placeOf([line]), content: rejected(reason) };
  }
}

/** The line, and those after it until its quotes are closed. */
async function linesOfRow(first: Line, next: () => Promise<Line | undefined>): Promise<readonly Line[]> {
  const parts = [first];
  let quotes = quotesIn(first.bytes);
  while (quotes % 2 === 1 && parts.length < MOST_LINES) {
    const more = await next();
    if (!more) break;
    parts.push(more);
    quotes += quotesIn(more.bytes);
  }
  return parts;
}

function placeOf(parts: readonly Line[]): Omit<Row, 'content'> {
  const [first, last] = [parts[0] as Line, parts.at(-1) as Line];
  const bytes = parts.length === 1 ? first.bytes : Buffer.concat(parts.map((part) => part.bytes));
  return { line: first.number, bytes, end: last.end, nextLine: last.number + 1 };
}

/** Undefined where the quotes are wrong. Most files have none, and need no parser. */
function cellsOf(content: Buffer, delimiter: string): readonly string[] | undefined {
  const text = content.toString('utf8');
  if (!content.includes(QUOTE)) return text.split(delimiter);
  try {
    const rows = parse(text, { delimiter }) as string[][];
    return rows.length === 1 ? rows[0] : undefined;
  } catch (error) {
    if ((error as { code?: string }).code?.startsWith('CSV_')) return undefined;
    throw error;
  }
}

function quotesIn(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(QUOTE); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) count += 1;
  return count;
}
