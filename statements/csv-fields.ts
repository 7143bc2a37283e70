/** One field of a record; a quoted one without its quotes. */
export interface CsvField {
  readonly text: string;
  readonly isQuoted: boolean;
}

/**
 * How a record is read. `isLoose`: blanks may stand outside of quotes, and `="K"`, with which programs keep a spreadsheet from reading a
 * number, is K.
 */
export interface CsvForm {
  readonly delimiter: string;
  readonly isLoose: boolean;
}

const STRICT_OPENING = /"/y;
const LOOSE_OPENING = / *=?"/y;

/**
 * The fields of one whole record of RFC 4180, in which a quoted field may hold line breaks. Undefined if its quotes are wrong: one that is
 * not closed, or stands inside a field without being doubled.
 */
export function csvFields(record: string, { delimiter, isLoose }: CsvForm): CsvField[] | undefined {
  const fields: CsvField[] = [];
  for (let start = 0; start <= record.length; ) {
    const quoted = quotedField(record, start, isLoose);
    const after = quoted?.end ?? start;
    const next = record.indexOf(delimiter, after);
    const end = next < 0 ? record.length : next;
    const plain = record.slice(after, end);
    const isWellFormed = quoted ? (isLoose ? plain.trim() : plain) === '' : !plain.includes('"');
    if (!isWellFormed) return undefined;
    fields.push({ text: quoted?.text ?? plain, isQuoted: quoted !== undefined });
    start = end + delimiter.length;
  }
  return fields;
}

/** True if the quotes of a text leave one open, if none was open before it. */
export function hasOddQuotes(text: string): boolean {
  let isOdd = false;
  for (let index = text.indexOf('"'); index >= 0; index = text.indexOf('"', index + 1)) isOdd = !isOdd;
  return isOdd;
}

/** The quoted field that begins at `start`, and its end. A doubled quote belongs to its text. */
function quotedField(record: string, start: number, isLoose: boolean): { text: string; end: number } | undefined {
  const opening = isLoose ? LOOSE_OPENING : STRICT_OPENING;
  opening.lastIndex = start;
  if (!opening.test(record)) return undefined;
  const opened = opening.lastIndex;
  let closed = record.indexOf('"', opened);
  while (record[closed + 1] === '"') closed = record.indexOf('"', closed + 2);
  const text = record.slice(opened, closed).replaceAll('""', '"');
  return { text: isLoose ? withoutFormula(text) : text, end: closed + 1 };
}

function withoutFormula(text: string): string {
  return /^="([^"]*)"$/.exec(text)?.[1] ?? text;
}
