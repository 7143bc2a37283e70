import { addTo, readAmount, type Totals } from './amounts.js';
import type { RowKind, StatementRow, UnreadRow } from './row.js';

/** A line of our export. */
export interface SettledPayment {
  readonly idempotencyKey: string;
  readonly reference: string | null;
  readonly attempt: number | null;
  readonly state: 'COMPLETED' | 'DECLINED';
  readonly amount: string;
  readonly currency: string;
  readonly transactionId: string;
  readonly claimedAt: string | null;
  readonly settledAt: string | null;
  /** The key of the payment that a refund gives back, and the name of the refund. Undefined for a payment. */
  readonly refund?: { readonly payment: string; readonly name: string } | undefined;
}

/** A refund of our export. */
export type SettledRefund = SettledPayment & Required<Pick<SettledPayment, 'refund'>>;

export const isRefund = (payment: SettledPayment): payment is SettledRefund => payment.refund !== undefined;

const PAYMENT_KINDS = ['different', 'theirs', 'ours', 'unread', 'duplicate'] as const;
const REFUND_KINDS = ['refundDifferent', 'refundTheirs', 'refundOurs', 'refundUnread', 'refundDuplicate'] as const;
/** The kinds of differences, most important first: of payments, and of refunds. `unread`: the line could not be read. */
export const KINDS = [...PAYMENT_KINDS, ...REFUND_KINDS] as const;
/** No difference on this day, and one if the statement of the other day has them too: then they were charged, or given back, twice. */
const OTHER_DAY_KINDS = ['otherDay', 'refundOtherDay'] as const;
/** Everything that is listed one by one. */
export const LISTED_KINDS = [...KINDS, ...OTHER_DAY_KINDS] as const;
export type Kind = (typeof LISTED_KINDS)[number];

export interface Difference {
  readonly kind: Kind;
  /** The members that differ, if both have the payment. None if it was settled on a day next to the chosen one. */
  readonly differs: readonly string[];
  readonly ours: SettledPayment | undefined;
  readonly theirs: StatementRow | undefined;
  /** The line of a payment that could not be read. */
  readonly unread: UnreadRow | undefined;
  /** The line that counts, if this one is a duplicate. */
  readonly firstLine: number | undefined;
}

export interface Group {
  count: number;
  /** The sum of completed payments: a decline moves no money. The sums of refunds have no sign. */
  readonly ours: Totals;
  readonly theirs: Totals;
}

const AGREEMENTS = ['matched', 'unlisted', 'theirsDeclined', 'refundMatched', 'refundUnlisted'] as const;
/** `unlisted`: declined in Idempay and not on the statement. `theirsDeclined`: declined there, and explained by nothing in Idempay. */
export type Agreement = (typeof AGREEMENTS)[number];
const SIDE_KINDS = ['check', 'chargeback', 'fee', 'other'] as const;
/** Lines that are not compared; they have a total of their own and are no differences. `check`: a line of `processor check`. */
export type SideKind = Exclude<RowKind, 'payment' | 'refund'> | 'check';

export type Groups = Readonly<Record<Kind | Agreement | SideKind, Group>>;

const REFUND_GROUPS: ReadonlySet<string> = new Set([
  ...REFUND_KINDS,
  'refundOtherDay',
  ...AGREEMENTS.filter((name) => name.startsWith('refund')),
]);

/** The counts and sums of a comparison. `found` is called with each listed entry at once, so that none is kept here. */
export class Findings {
  readonly groups: Groups = Object.fromEntries(
    [...LISTED_KINDS, ...AGREEMENTS, ...SIDE_KINDS].map((name) => [
      name,
      { count: 0, ours: new Map(), theirs: new Map() },
    ]),
  ) as unknown as Groups;

  constructor(private readonly found: (difference: Difference) => void) {}

  report(kind: Kind, parts: Partial<Omit<Difference, 'kind'>>): void {
    this.count(kind, parts.ours, parts.theirs);
    const none = { differs: [], ours: undefined, theirs: undefined, unread: undefined, firstLine: undefined };
    this.found({ ...none, kind, ...parts });
  }

  count(name: keyof Groups, ours: SettledPayment | undefined, theirs: StatementRow | undefined): void {
    const group = this.groups[name];
    group.count += 1;
    if (ours?.state === 'COMPLETED') addTo(group.ours, ours.currency, unitsOf(ours));
    if (!theirs || theirs.state === 'DECLINED' || theirs.amount === '') return;
    addTo(group.theirs, theirs.currency, REFUND_GROUPS.has(name) ? givenBack(theirs) : theirs.units);
  }
}

/** The amount of a line about a refund. Most companies write a debit, some an amount without a sign. */
export const givenBack = ({ units }: StatementRow): bigint => (units < 0n ? -units : units);

export function unitsOf({ amount }: SettledPayment): bigint {
  const read = readAmount(amount, '.');
  if (!('units' in read)) throw new Error(`an amount of the service: ${amount}`);
  return read.units;
}

export type Rank = readonly (bigint | number | string)[];

export function compareRanks(one: Rank, other: Rank): number {
  for (const [index, value] of one.entries()) {
    const next = other[index] as typeof value;
    if (value !== next) return value < next ? -1 : 1;
  }
  return 0;
}

/** The same for any order of the lines. */
export function byProblem(one: UnreadRow, other: UnreadRow): number {
  return compareRanks([one.problem, one.line], [other.problem, other.line]);
}

/** A line that moved money counts: a declined line of the same payment must not hide it. */
export function rankAlone(row: StatementRow): Rank {
  const { state, units, currency, refund, reference, order, transactionId, status, line } = row;
  return [state === 'COMPLETED' ? 0 : 1, -units, currency, status, refund, reference, order, transactionId, line];
}
