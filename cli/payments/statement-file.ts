import {
  type Columns,
  clipped,
  currencyOfAmounts,
  DELIMITERS,
  type DecimalMark,
  firstLines,
  MEMBERS,
  type Member,
  problemOfColumns,
  readHead,
  repeatedMembers,
  StatementError,
  type StatementFile,
} from '#idempay/statements';
import { UsageError } from '../usage.js';

/** How to read the statement, if it does not show it itself. */
export interface StatementOptions {
  readonly delimiter?: string | undefined;
  readonly currency?: string | undefined;
  readonly decimalMark?: DecimalMark | undefined;
  /** `MEMBER=NAME` */
  readonly column?: readonly string[] | undefined;
}

export interface StatementSettings {
  readonly delimiter: string | undefined;
  readonly currency: string | undefined;
  readonly decimalMark: DecimalMark | undefined;
  readonly columns: ReadonlyMap<Member, string>;
}

/** The most names that a message lists. */
const MOST_NAMES = 30;

/** Throws UsageError. */
export function settingsOf({ delimiter, currency, decimalMark, column = [] }: StatementOptions): StatementSettings {
  const mark = delimiter === '\\t' ? '\t' : delimiter;
  if (mark !== undefined && !DELIMITERS.some((each) => each === mark)) {
    throw new UsageError('--delimiter takes one of , ; | and \\t (a tab).');
  }
  if (currency !== undefined && !/^[a-z]{3}$/i.test(currency)) {
    throw new UsageError('--currency takes a code of three letters such as EUR.');
  }
  return { delimiter: mark, currency: currency?.toUpperCase(), decimalMark, columns: columnsIn(column) };
}

/**
 * The statement in these bytes, of which only the beginning is read here. Throws StatementError for a file that is no statement, and
 * UsageError for settings that do not fit it.
 */
export async function openStatement(
  bytes: AsyncIterable<Uint8Array>,
  { delimiter, currency: typed, decimalMark, columns: chosen }: StatementSettings,
): Promise<StatementFile> {
  const { lines, all } = await begun(bytes);
  const { format, columns: recognised } = readHead(lines, delimiter);
  if (format.kind === 'NDJSON' && delimiter !== undefined) {
    throw new UsageError('The statement is JSON, which has no --delimiter. Leave it out.');
  }
  const columns = withNamed(recognised, chosen, format.names);
  const [repeated] = repeatedMembers(columns, format.names).filter((member) => !chosen.has(member));
  if (repeated !== undefined) {
    throw new StatementError(
      `The statement has several columns “${clipped(format.names[columns[repeated] ?? -1] ?? '', 60)}”, and one of them may be the ${repeated}. Give them names of their own in the file, or choose another column: --column ${repeated}=NAME, or --column ${repeated}= for none.`,
    );
  }
  const currency = typed ?? currencyOfAmounts(format, columns);
  const problem = problemOfColumns(columns, currency);
  if (problem !== undefined) {
    throw new StatementError(
      `${problem} Here --column MEMBER=NAME chooses a column, and --currency types the currency. ${namesText(format.names)}`,
    );
  }
  return { bytes: all, format, columns, currency, decimalMark };
}

/** The whole lines at the beginning; and the bytes from the beginning on, so that a pipe is read once. */
async function begun(bytes: AsyncIterable<Uint8Array>) {
  const source = bytes[Symbol.asyncIterator]();
  const taken: Uint8Array[] = [];

  async function* rest(): AsyncGenerator<Uint8Array, void, void> {
    for (let next = await source.next(); !next.done; next = await source.next()) yield next.value;
  }
  async function* beginning() {
    for await (const chunk of rest()) {
      taken.push(chunk);
      yield chunk;
    }
  }
  async function* all() {
    yield* taken.splice(0);
    yield* rest();
  }
  return { lines: await firstLines(beginning()), all: all() };
}

function columnsIn(texts: readonly string[]): ReadonlyMap<Member, string> {
  const columns = new Map<Member, string>();
  for (const text of texts) {
    const at = text.indexOf('=');
    const member = MEMBERS.find((each) => each === text.slice(0, Math.max(at, 0)));
    const name = text.slice(at + 1).trim();
    if (member === undefined) {
      throw new UsageError(
        `--column takes MEMBER=NAME, such as amount=Gross, or MEMBER= for none. The members: ${MEMBERS.join(', ')}.`,
      );
    }
    if (columns.has(member)) throw new UsageError(`--column has ${member} twice. Name one column for it.`);
    columns.set(member, name);
  }
  const isNamed = (member: Member) => (columns.get(member) ?? '') !== '';
  if (isNamed('amount') && (isNamed('credit') || isNamed('debit'))) {
    throw new UsageError('Name the column of the amount, or those of credit and debit, not both.');
  }
  return columns;
}

/** A column that was named is nothing else, also if it was recognised as another one. */
function withNamed(recognised: Columns, named: ReadonlyMap<Member, string>, names: readonly string[]): Columns {
  const chosen = new Map([...named].map(([member, name]) => [member, name === '' ? undefined : indexOf(name, names)]));
  const taken = [...chosen.values()];
  const hasSides = chosen.get('credit') !== undefined || chosen.get('debit') !== undefined;
  const free = MEMBERS.filter((member) => {
    const index = recognised[member];
    if (chosen.has(member) || (hasSides && member === 'amount')) return false;
    return index !== undefined && !taken.includes(index);
  });
  return Object.fromEntries([...free.map((member) => [member, recognised[member]] as const), ...chosen]);
}

/** Exactly this name, or else in any case. */
function indexOf(name: string, names: readonly string[]): number {
  const trimmed = names.map((each) => each.trim());
  const lower = trimmed.map((each) => each.toLowerCase());
  const isExact = trimmed.includes(name);
  const [all, wanted] = isExact ? [trimmed, name] : [lower, name.toLowerCase()];
  const index = all.indexOf(wanted);
  if (index < 0) throw new UsageError(`The statement has no column “${name}”. ${namesText(names)}`);
  if (index !== all.lastIndexOf(wanted)) {
    throw new UsageError(`The statement has several columns “${name}”. Give them names of their own in the file.`);
  }
  return index;
}

function namesText(names: readonly string[]): string {
  const first = names.slice(0, MOST_NAMES).map((name) => `“${clipped(name, 60)}”`);
  return `Its columns: ${first.join(', ')}${names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''}.`;
}
