import {
  agreementOf,
  type ComparisonResult,
  clipped,
  type Difference,
  GROUPS,
  type GroupName,
  KINDS,
  type Kind,
  LISTED_KINDS,
  MEMBERS,
  type Reconciliation,
  type SettledPayment,
  type StatementFile,
  type StatementRow,
  shownGroups,
  totalTexts,
} from '#idempay/statements';
import { harmless, painted } from '../output/terminal.js';

export interface Compared {
  readonly day: string;
  readonly processor: string | undefined;
  readonly file: StatementFile;
  readonly result: Reconciliation;
}

/** The most lines of each kind for a person; `--differences` has all. */
const MOST_LINES = 20;

const NAMES = Object.keys(GROUPS) as GroupName[];

/** One document for scripts. Amounts are text. */
export function jsonOf({ day, processor, result }: Compared): object {
  const { groups, lines, payments, refunds, refundsFoundByPayment, shown, problems } = result;
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
    refunds,
    refundsFoundByPayment,
    namesOrders: result.isDayNamed,
    groups: Object.fromEntries(NAMES.map((name) => [GROUPS[name].name, groupOf(name)])),
    differences: KINDS.flatMap((kind) => shown[kind].map(jsonOfDifference)),
    otherDays: [...shown.otherDay, ...shown.refundOtherDay].map(jsonOfDifference),
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

function statedFieldsOf(row: StatementRow): object {
  const { reference, order, refund, transactionId, amount, currency, status, state } = row;
  const ids = { reference, order, ...(refund !== '' && { refund }), transactionId };
  return { ...ids, amount, currency, status, state };
}

/** For a person, on a terminal and in the mail of a nightly job. */
export function textOf({ day, file, result }: Compared): string {
  const { lines, payments, shown, groups } = result;
  const parts = [
    painted(verdictOf(result, day), 'bold'),
    `Lines of the statement: ${lines.read} read, ${lines.refused} not read, ${lines.skipped} skipped (${skippedText(file)}). Payments settled on the day in Idempay, with those that were declined: ${payments}.${refundsText(result)}`,
    `Columns: ${columnsText(file)}.`,
    '',
    ...summaryOf(groups),
    ...LISTED_KINDS.flatMap((kind) => sectionOf(GROUPS[kind], groups[kind].count, shown[kind].map(lineOf))),
    ...problemsOf(result),
  ];
  return `${parts.join('\n')}\n`;
}

/** Says how the refunds were found, because an amount is less than a name. Empty if there are none. */
function refundsText({ refunds, refundsFoundByPayment: found }: Reconciliation): string {
  const parts = [
    ...(refunds > 0 ? [` Refunds: ${refunds}.`] : []),
    ...(found > 0 ? [` Found by payment and amount, because their lines name no refund: ${found}.`] : []),
  ];
  return parts.join('');
}

/** The lines that are skipped besides blank ones. */
function skippedText({ format }: StatementFile): string {
  if (format.kind === 'NDJSON') return 'blank';
  const { headerLine } = format;
  return headerLine === 1
    ? 'the names of the columns'
    : `the names of the columns in line ${headerLine}, and what stands before`;
}

function verdictOf(result: Reconciliation, day: string): string {
  const { differences, isAgreed, isOtherDay, namesNoOrder } = agreementOf(result);
  const unread = result.problems.count;
  if (isAgreed) return `Agreed: the statement and Idempay have the same payments of ${day}.`;
  const unreadText = `${countOf(unread, 'line')} could not be read`;
  if (isOtherDay)
    return `Nothing of the statement was settled on ${day}, and ${otherDayText(result)} of it on a day next to it. Compare it with its own day.`;
  if (differences === 0) return `No difference was found, but ${unreadText}.`;
  const found = `${countOf(differences, 'difference')} between the statement and the payments of ${day}`;
  const stated = unread === 0 ? `${found}.` : `${found}, and ${unreadText}.`;
  if (!namesNoOrder) return stated;
  return `No line of the statement names an order of ${day}: check the columns, the day and the processor first. ${stated}`;
}

function otherDayText({ groups: { otherDay, refundOtherDay } }: Reconciliation): string {
  const payments = otherDay.count > 0 ? [countOf(otherDay.count, 'payment')] : [];
  const refunds = refundOtherDay.count > 0 ? [countOf(refundOtherDay.count, 'refund')] : [];
  return [...payments, ...refunds].join(' and ');
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
  const rows = shownGroups(groups).map((name) => {
    const { count, ours, theirs } = groups[name];
    const { title, hint } = GROUPS[name];
    return [hint === undefined ? title : `${title} (${hint})`, String(count), amountsOf(ours), amountsOf(theirs)];
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

function sectionOf({ title, meaning }: (typeof GROUPS)[Kind], count: number, lines: readonly string[]): string[] {
  if (count === 0) return [];
  const first = lines.slice(0, MOST_LINES);
  const more = count - first.length;
  return [
    '',
    painted(`${title} (${count})`, 'bold'),
    ...(meaning === undefined ? [] : [meaning]),
    ...first.map((line) => `  ${line}`),
    ...(more > 0 ? [`  and ${more} more: --differences FILE writes all of them.`] : []),
  ];
}

function lineOf({ differs, ours, theirs, unread, firstLine }: Difference): string {
  const payment = ours ? `${ours.idempotencyKey}${namesText(ours)}` : '';
  const inIdempay = ours ? `${ours.amount} ${ours.currency} ${ours.state} ${ours.transactionId}` : '';
  const stated = theirs ? `line ${theirs.line}: ${statedOf(theirs)}` : '';
  const what = differs.length > 0 ? differs.join(', ') : `settled at ${ours?.settledAt}`;
  if (ours && theirs) return `${payment}: ${what}; in Idempay ${inIdempay}; at the processor ${stated}`;
  if (ours && unread) return `${payment}: ${inIdempay}; line ${unread.line}: ${plain(unread.problem)}`;
  if (ours) return `${payment}: ${inIdempay}`;
  return firstLine !== undefined ? `${stated}; compared was line ${firstLine}` : stated;
}

function namesText({ reference, attempt, refund }: SettledPayment): string {
  if (refund) return ` (refund ${plain(refund.name)} of ${refund.payment})`;
  return reference === null ? '' : ` (${plain(reference)}, attempt ${attempt})`;
}

function statedOf({ reference, order, refund, transactionId, amount, currency, status }: StatementRow): string {
  const ids = [...new Set([refund, reference, order, transactionId])].filter((id) => id !== '').map(plain);
  return [amount && `${amount} ${currency}`, plain(status), ...ids].filter((text) => text !== '').join(' ');
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
const plain = (text: string) => harmless(clipped(text));
