import { totalTexts } from '../../statements/amounts.js';
import { MEMBERS } from '../../statements/columns.js';
import { type ComparisonResult, type Difference, KINDS, type Kind } from '../../statements/comparison.js';
import { KIND_NAMES } from '../../statements/differences-file.js';
import { agreementOf, type Reconciliation } from '../../statements/reconcile.js';
import type { StatementRow } from '../../statements/row.js';
import type { StatementFile } from '../../statements/statement.js';
import { harmless, painted } from '../output/terminal.js';
import { clipped } from './statement-file.js';

export interface Compared {
  readonly day: string;
  readonly processor: string | undefined;
  readonly file: StatementFile;
  readonly result: Reconciliation;
}

type GroupName = keyof ComparisonResult['groups'];

/** A person reads so many of each kind; `--differences` has all. */
const MOST_LINES = 20;
const MOST_CHARACTERS = 200;

/** In the order of the summary. `name`: for scripts, which depend on it. */
const GROUPS: Readonly<Record<GroupName, { readonly name: string; readonly title: string }>> = {
  matched: { name: 'matched', title: 'the same on both sides' },
  otherDay: { name: 'otherDay', title: 'the same, settled in Idempay on a day next to it' },
  unlisted: { name: 'unlisted', title: 'declined in Idempay, not on the statement' },
  different: { name: 'different', title: KIND_NAMES.different },
  theirs: { name: 'onlyAtProcessor', title: KIND_NAMES.theirs },
  ours: { name: 'onlyInIdempay', title: KIND_NAMES.ours },
  unread: { name: 'unread', title: KIND_NAMES.unread },
  duplicate: { name: 'duplicate', title: KIND_NAMES.duplicate },
  refund: { name: 'refund', title: 'refunds (not compared)' },
  chargeback: { name: 'chargeback', title: 'chargebacks (not compared)' },
  fee: { name: 'fee', title: 'fees (not compared)' },
  other: { name: 'other', title: 'other lines that are no payments (not compared)' },
};
const NAMES = Object.keys(GROUPS) as GroupName[];
const ALWAYS_SHOWN: readonly GroupName[] = ['matched', 'different', 'theirs', 'ours'];

/** One document for scripts. Amounts are text. */
export function jsonOf({ day, processor, result }: Compared): object {
  const { groups, lines, payments, shown, problems } = result;
  const groupOf = (name: GroupName) => {
    const { count, ours, theirs } = groups[name];
    return { count, idempay: totalTexts(ours), processor: totalTexts(theirs) };
  };
  return {
    day,
    processor: processor ?? null,
    agreed: agreementOf(result).isAgreed,
    lines,
    payments,
    groups: Object.fromEntries(NAMES.map((name) => [GROUPS[name].name, groupOf(name)])),
    differences: KINDS.flatMap((kind) => shown[kind].map(jsonOfDifference)),
    problems: problems.first.map(({ line, problem }) => ({ line, problem })),
  };
}

function jsonOfDifference({ kind, differs, ours, theirs, unread, firstLine }: Difference): object {
  return {
    kind: GROUPS[kind].name,
    differs,
    line: theirs?.line ?? unread?.line ?? null,
    payment: ours ?? null,
    statement: theirs ? statedFieldsOf(theirs) : null,
    ...(firstLine !== undefined && { comparedLine: firstLine }),
    ...(unread && { problem: unread.problem }),
  };
}

function statedFieldsOf({ reference, order, transactionId, amount, currency, status, state }: StatementRow): object {
  return { reference, order, transactionId, amount, currency, status, state };
}

/** For a person, on a terminal and in the mail of a nightly job. */
export function textOf({ day, file, result }: Compared): string {
  const { lines, payments, shown, groups } = result;
  const parts = [
    painted(verdictOf(result, day), 'bold'),
    `Lines of the statement: ${lines.read} read, ${lines.refused} not read, ${lines.skipped} skipped (${skippedText(file)}). Payments settled on the day in Idempay, with those that were declined: ${payments}.`,
    `Columns: ${columnsText(file)}.`,
    '',
    ...summaryOf(groups),
    ...KINDS.flatMap((kind) => sectionOf(KIND_NAMES[kind], groups[kind].count, shown[kind].map(lineOf), HINTS[kind])),
    ...problemsOf(result),
  ];
  return `${parts.join('\n')}\n`;
}

/** What is skipped besides blank lines. */
function skippedText({ format }: StatementFile): string {
  if (format.kind === 'NDJSON') return 'blank';
  const { headerLine } = format;
  return headerLine === 1
    ? 'the names of the columns'
    : `the names of the columns in line ${headerLine}, and what stands before`;
}

const HINTS: Readonly<Partial<Record<Kind, string>>> = {
  theirs: 'Not settled in Idempay on this day or one next to it. It may still be under way in Idempay.',
  ours: 'Completed in Idempay, and not on this statement. If it was claimed just before midnight, look at the statement of the day before.',
};

function verdictOf(result: Reconciliation, day: string): string {
  const { differences, isAgreed, isOtherDay } = agreementOf(result);
  const unread = result.problems.count;
  if (isAgreed) return `Agreed: the statement and Idempay have the same payments of ${day}.`;
  const unreadText = `${countOf(unread, 'line')} could not be read`;
  if (isOtherDay)
    return `Nothing of the statement was settled on ${day}, and ${countOf(result.groups.otherDay.count, 'payment')} of it on a day next to it. Compare it with its own day.`;
  if (differences === 0) return `No difference was found, but ${unreadText}.`;
  const found = `${countOf(differences, 'difference')} between the statement and the payments of ${day}`;
  return unread === 0 ? `${found}.` : `${found}, and ${unreadText}.`;
}

function columnsText({ format, columns, currency }: StatementFile): string {
  const named = MEMBERS.flatMap((member) => {
    const index = columns[member];
    return index === undefined ? [] : [`${member} “${plain(format.names[index] ?? '')}”`];
  });
  return [...named, ...(currency === undefined ? [] : [`currency ${currency} where a line has none`])].join(', ');
}

/** A table whose columns are as wide as what is in them. */
function summaryOf(groups: ComparisonResult['groups']): string[] {
  const rows = NAMES.filter((name) => groups[name].count > 0 || ALWAYS_SHOWN.includes(name)).map((name) => {
    const { count, ours, theirs } = groups[name];
    return [GROUPS[name].title, String(count), amountsOf(ours), amountsOf(theirs)];
  });
  const all = [['', 'count', 'in Idempay', 'at the processor'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all.map(([title = '', count = '', ours = '', theirs = '']) => {
    const [titleWidth = 0, countWidth = 0, oursWidth = 0] = widths;
    return `${title.padEnd(titleWidth)}  ${count.padStart(countWidth)}  ${ours.padEnd(oursWidth)}  ${theirs}`.trimEnd();
  });
}

function amountsOf(totals: Parameters<typeof totalTexts>[0]): string {
  const texts = totalTexts(totals).map(({ currency, amount }) => `${amount} ${currency}`);
  return texts.length > 0 ? texts.join(', ') : '-';
}

function sectionOf(title: string, count: number, lines: readonly string[], hint?: string): string[] {
  if (count === 0) return [];
  const first = lines.slice(0, MOST_LINES);
  const more = count - first.length;
  return [
    '',
    painted(`${title[0]?.toUpperCase()}${title.slice(1)} (${count})`, 'bold'),
    ...(hint === undefined ? [] : [hint]),
    ...first.map((line) => `  ${line}`),
    ...(more > 0 ? [`  and ${more} more: --differences FILE writes all of them.`] : []),
  ];
}

function lineOf({ kind, differs, ours, theirs, unread, firstLine }: Difference): string {
  const payment = ours
    ? `${ours.idempotencyKey}${ours.reference === null ? '' : ` (${plain(ours.reference)}, attempt ${ours.attempt})`}`
    : '';
  const inIdempay = ours ? `${ours.amount} ${ours.currency} ${ours.state} ${ours.transactionId}` : '';
  const stated = theirs ? `line ${theirs.line}: ${statedOf(theirs)}` : '';
  if (kind === 'different')
    return `${payment}: ${differs.join(', ')}; in Idempay ${inIdempay}; at the processor ${stated}`;
  if (kind === 'ours') return `${payment}: ${inIdempay}`;
  if (kind === 'unread') return `${payment}: ${inIdempay}; line ${unread?.line}: ${plain(unread?.problem ?? '')}`;
  return kind === 'duplicate' ? `${stated}; compared was line ${firstLine}` : stated;
}

function statedOf({ reference, order, transactionId, amount, currency, status }: StatementRow): string {
  const ids = [...new Set([reference, order, transactionId])].filter((id) => id !== '').map(plain);
  return [`${amount} ${currency}`, plain(status), ...ids].filter((text) => text !== '').join(' ');
}

function problemsOf({ problems: { count, first } }: Reconciliation): string[] {
  if (count === 0) return [];
  const lines = first.slice(0, MOST_LINES).map(({ line, problem }) => `  line ${line}: ${plain(problem)}`);
  const more = count - lines.length;
  return [
    '',
    painted(`Lines that could not be read (${count})`, 'bold'),
    ...lines,
    ...(more > 0 ? [`  and ${more} more.`] : []),
  ];
}

const countOf = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
const plain = (text: string) => harmless(clipped(text, MOST_CHARACTERS));
