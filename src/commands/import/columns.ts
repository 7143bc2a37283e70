import { UsageError } from '#idempay/cli/usage.js';

/** Members that are read. */
export const READ_MEMBERS = ['fromAccount', 'toAccount', 'amount', 'status'] as const;
export type ReadMember = (typeof READ_MEMBERS)[number];
/** Members of an export that a new transaction gets from the service. */
export const GIVEN_MEMBERS: readonly string[] = ['transactionId', 'createdAt'];

/** The member that each column is read as. Undefined for a column that is left out. */
export type Columns = readonly (ReadMember | undefined)[];

const BY_NAME: ReadonlyMap<string, ReadMember> = new Map(READ_MEMBERS.map((member) => [nameOf(member), member]));
const GIVEN_NAMES: ReadonlySet<string> = new Set(GIVEN_MEMBERS.map(nameOf));
const REQUIRED = READ_MEMBERS.filter((member) => member !== 'status');

/**
 * The columns that the header names. Columns that are read must be unique; `ignored` ones may have any name, none, or the same one. Throws
 * UsageError if a column is missing, unknown or repeated.
 */
export function columnsOf(header: readonly string[], delimiter: string, ignored: readonly string[]): Columns {
  const isIgnored = new Set(ignored);
  const columns = header.map((cell) => (isIgnored.has(nameOf(cell)) ? undefined : BY_NAME.get(nameOf(cell))));
  const missing = REQUIRED.filter((member) => !columns.includes(member));
  if (missing.length > 0) {
    throw new UsageError(
      `The header must name ${REQUIRED.join(', ')}, and may name status, ${GIVEN_MEMBERS.join(', ')}. It lacks ${missing.join(', ')}. Where cells are not separated by '${delimiter === '\t' ? '\\t' : delimiter}', give --delimiter. A workbook (.xlsx) or a text in UTF-16 is to be saved as CSV in UTF-8 first.`,
    );
  }
  const unknown = header.filter((cell, index) => columns[index] === undefined && !isLeftOut(cell, isIgnored));
  if (unknown.length > 0) throw unknownColumns(unknown, ignored);
  const twice = columns.find((member, index) => member !== undefined && columns.indexOf(member) !== index);
  if (twice === undefined) return columns;
  throw new UsageError(`The header names '${twice}' twice. Rename the column that is not to be read.`);
}

/** A name as it is compared: without regard to case, outer blanks and line breaks. */
export function nameOf(text: string): string {
  return shown(text).toLowerCase();
}

/** The option that leaves these columns or members out, as it can be typed into a shell. */
export function ignoreOption(names: readonly string[]): string {
  const different = [...new Map(names.map((name) => [nameOf(name), shown(name)])).values()];
  const list = different.map((name) => (/[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(',');
  return `--ignore ${/^[\w.,-]+$/.test(list) ? list : `'${list.replaceAll("'", `'\\''`)}'`}`;
}

function isLeftOut(cell: string, isIgnored: ReadonlySet<string>): boolean {
  return isIgnored.has(nameOf(cell)) || GIVEN_NAMES.has(nameOf(cell));
}

function unknownColumns(unknown: readonly string[], ignored: readonly string[]): UsageError {
  const names = [...new Set(unknown.map((cell) => (shown(cell) === '' ? 'without a name' : `'${shown(cell)}'`)))];
  const [what, correct] =
    unknown.length === 1
      ? ['The column', 'is not known. Correct its name, or leave it out:']
      : ['The columns', 'are not known. Correct their names, or leave them out:'];
  return new UsageError(`${what} ${names.join(', ')} ${correct} ${ignoreOption([...ignored, ...unknown])}`);
}

/** On one line, because a header cell of a spreadsheet often has a line break. */
function shown(text: string): string {
  return text.replace(/[\p{Cc}\s]+/gu, ' ').trim();
}
