import { Comparison, type ComparisonResult } from './comparison.js';
import { type Difference, isRefund, KINDS, type Kind, LISTED_KINDS, type SettledPayment } from './differences.js';
import type { PaymentNames } from './refunds.js';
import type { UnreadRow } from './row.js';
import { type LineCounts, readStatement, type StatementFile } from './statement.js';

/** Shown of each kind; the file of differences has all. */
export const MOST_SHOWN = 1_000;
const MOST_PROBLEMS_SHOWN = 100;
const PROGRESS_EVERY_ROWS = 20_000;

/** The chosen day; and only if lines are left over, the days next to it. */
const DAYS = [0, 1, -1] as const;
export type DayOffset = (typeof DAYS)[number];

export interface Progress {
  readonly rows: number;
  readonly payments: number;
}

/** Our side of a comparison. */
export interface OurPayments {
  /** The payments and refunds that were settled on a day. */
  paymentsOf(day: DayOffset): AsyncIterable<readonly SettledPayment[]>;
  /** The names of a payment of any day, of which a refund was settled on this one. Undefined if it is not known. */
  namesOf(payment: string): Promise<PaymentNames | undefined>;
}

export interface Reconciliation extends ComparisonResult, Progress {
  /** The refunds of the day. `payments` does not have them. */
  readonly refunds: number;
  readonly lines: LineCounts;
  /** The first of each kind. */
  readonly shown: Readonly<Record<Kind, readonly Difference[]>>;
  /** Lines of the statement that could not be read. */
  readonly problems: { readonly count: number; readonly first: readonly UnreadRow[] };
}

/**
 * Compares a statement with our exports, of which each piece is forgotten when the next one comes: memory grows with the statement
 * and with the refunds that no line names.
 * `found` gets every difference, and everything that was settled on a day next to the chosen one.
 */
export async function reconcile(
  statement: StatementFile,
  { paymentsOf, namesOf }: OurPayments,
  found: (difference: Difference) => void = () => {},
  onProgress: (progress: Progress) => void = () => {},
): Promise<Reconciliation> {
  const shown = Object.fromEntries(LISTED_KINDS.map((kind) => [kind, []])) as unknown as Record<Kind, Difference[]>;
  let told = 0;
  const tell = (progress: Progress) => {
    if (progress.rows + progress.payments < told + PROGRESS_EVERY_ROWS) return;
    told = progress.rows + progress.payments;
    onProgress(progress);
  };
  const content = await readStatement(statement, (rows) => tell({ rows, payments: 0 }));
  const rows = content.rows.length + content.unread.length;
  const comparison = new Comparison(content, (difference) => {
    const list = shown[difference.kind];
    if (list.length < MOST_SHOWN) list.push(difference);
    found(difference);
  });
  let [payments, refunds] = [0, 0];
  for (const day of DAYS) {
    if (day !== 0 && !comparison.hasUnexplained()) break;
    for await (const exported of paymentsOf(day)) {
      for (const payment of exported) comparison.add(payment, day === 0);
      const ofTheDay = day === 0 ? exported : [];
      const given = ofTheDay.filter(isRefund).length;
      refunds += given;
      payments += ofTheDay.length - given;
      tell({ rows, payments });
    }
    for (const payment of comparison.paymentsToName()) comparison.namePayment(payment, await namesOf(payment));
  }
  const problems = { count: content.unread.length, first: content.unread.slice(0, MOST_PROBLEMS_SHOWN) };
  return { ...comparison.end(), rows, payments, refunds, lines: content.lines, shown, problems };
}

/** Tells if both sides have the same payments and refunds of the day, as far as every line could be read. */
export function agreementOf({
  groups,
  problems,
  isDayNamed,
}: Pick<Reconciliation, 'groups' | 'problems' | 'isDayNamed'>): {
  readonly differences: number;
  /** Nothing of the statement was settled on the day, and something on a day next to it. */
  readonly isOtherDay: boolean;
  /** No line names an order of the day, and some name one that is not known: of another column, day, processor or service. */
  readonly namesNoOrder: boolean;
  readonly isAgreed: boolean;
} {
  const unread = groups.unread.count + groups.refundUnread.count;
  const differences = KINDS.reduce((sum, kind) => sum + groups[kind].count, 0) - unread;
  const ofTheDay = groups.matched.count + groups.refundMatched.count;
  const isOtherDay = ofTheDay === 0 && groups.otherDay.count + groups.refundOtherDay.count > 0;
  const namesNoOrder = !isDayNamed && !isOtherDay && groups.theirs.count > 0;
  const isAgreed = differences === 0 && unread === 0 && problems.count === 0 && !isOtherDay;
  return { differences, isOtherDay, namesNoOrder, isAgreed };
}
