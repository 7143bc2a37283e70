import { addTo, readAmount, type Totals } from './amounts.js';
import { isOfCheck, isWholeKey } from './ids.js';
import { idsOf, type RowKind, type StatementRow, type UnreadRow } from './row.js';
import type { StatementContent } from './statement.js';

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
}

/** The kinds of differences, most important first. `unread`: the payment's line could not be read. */
export const KINDS = ['different', 'theirs', 'ours', 'unread', 'duplicate'] as const;
export type Kind = (typeof KINDS)[number];

export interface Difference {
  readonly kind: Kind;
  /** The members that differ, if both have the payment. */
  readonly differs: readonly string[];
  readonly ours: SettledPayment | undefined;
  readonly theirs: StatementRow | undefined;
  /** For a payment whose line could not be read: that line. */
  readonly unread: UnreadRow | undefined;
  /** For a duplicate: the line that counts. */
  readonly firstLine: number | undefined;
}

export interface Group {
  count: number;
  /** The sum of completed payments: a decline moves no money. */
  readonly ours: Totals;
  readonly theirs: Totals;
}

/** `otherDay`: the same, but settled in Idempay on a day next to the chosen one. `unlisted`: declined in Idempay and not on the statement. */
export type Agreement = 'matched' | 'otherDay' | 'unlisted';
/** Lines that are no payment; they have a total of their own and are no differences. `check`: a charge of `processor check`. */
export type SideKind = Exclude<RowKind, 'payment'> | 'check';

export interface ComparisonResult {
  /** True if a line of any kind names a payment of the day, by its key, order number or transaction id. */
  readonly isDayNamed: boolean;
  readonly groups: Readonly<Record<Kind | Agreement | SideKind, Group>>;
}

interface Entry {
  readonly row: StatementRow | UnreadRow;
  /** True if a payment of ours has taken it. */
  isTaken: boolean;
}

interface PaymentEntry extends Entry {
  readonly row: StatementRow;
}

interface Candidate {
  readonly payment: SettledPayment;
  readonly isOfTheDay: boolean;
}

const ALL_GROUPS = [
  ...KINDS,
  'matched',
  'otherDay',
  'unlisted',
  'check',
  'refund',
  'chargeback',
  'fee',
  'other',
] as const;

/**
 * Compares a statement with payments, in any order of both. If a payment has several lines, the one that equals it counts; a negative line,
 * a refund or a fee is never the payment. `found` is called with each difference at once, so that none is kept here.
 */
export class Comparison {
  private readonly entries: readonly Entry[];
  /** Nearly every id has one line, and an array for each would take as much memory as the lines. */
  private readonly byId = new Map<string, Entry | Entry[]>();
  /** Payments whose order number is on the statement, by it. */
  private readonly byOrder = new Map<string, Candidate[]>();
  private isDayNamed = false;
  private readonly groups = Object.fromEntries(ALL_GROUPS.map((name) => [name, emptyGroup()])) as Record<
    (typeof ALL_GROUPS)[number],
    Group
  >;

  constructor(
    statement: StatementContent,
    private readonly found: (difference: Difference) => void,
  ) {
    this.entries = [...statement.rows, ...statement.unread].map((row) => ({ row, isTaken: false }));
    for (const entry of this.entries) for (const id of idsOfLine(entry.row)) this.note(id, entry);
  }

  /** `isOfTheDay` false: only to explain lines that no payment of the day explains. */
  addPayment(payment: SettledPayment, isOfTheDay: boolean): void {
    const candidate = { payment, isOfTheDay };
    const { reference } = payment;
    const isOrderNamed = reference !== null && this.byId.has(reference);
    const about = this.aboutKey(payment);
    if (isOfTheDay && (isOrderNamed || about.length > 0)) this.isDayNamed = true;
    if (isOrderNamed) pushTo(this.byOrder, reference, candidate);
    else if (about.length > 0 || isOfTheDay) this.settle(candidate, about);
  }

  /** True if a payment on the statement is none of the payments that came: then it may be one of a day next to it. */
  hasUnexplained(): boolean {
    const explained = new Set<Entry>();
    for (const [reference, candidates] of this.byOrder) {
      for (const [{ payment }, share] of this.shareOut(reference, candidates)) {
        for (const entry of share) if (isLineOf(payment, entry)) explained.add(entry);
      }
    }
    return this.entries.some(
      (entry) => isPayment(entry) && !isCheck(entry.row) && !entry.isTaken && !explained.has(entry),
    );
  }

  end(): ComparisonResult {
    for (const [reference, candidates] of this.byOrder) {
      for (const [candidate, about] of this.shareOut(reference, candidates)) this.settle(candidate, about);
    }
    const unknown = new Map<string, StatementRow[]>();
    for (const { row, isTaken } of this.entries) {
      if (isTaken || !('kind' in row)) continue;
      if (isCheck(row)) this.count('check', undefined, row);
      else if (row.kind === 'payment') pushTo(unknown, row.order || row.reference || row.transactionId, row);
      else this.count(row.kind, undefined, row);
    }
    for (const lines of unknown.values()) this.reportUnknown(lines);
    this.byId.clear();
    return { isDayNamed: this.isDayNamed, groups: this.groups };
  }

  /**
   * The lines of an order for each of its payments. A line that names a key belongs to that payment. Any other declined line belongs to a
   * declined attempt. The rest belongs to the payment that was made, if only one is possible: two clients may have the same order number.
   */
  private shareOut(reference: string, candidates: readonly Candidate[]): ReadonlyMap<Candidate, readonly Entry[]> {
    const shares = new Map(candidates.map((candidate) => [candidate, [...this.aboutKey(candidate.payment)]]));
    const direct = new Set([...shares.values()].flat());
    const free = new Set(this.withId(reference).filter((entry) => !entry.isTaken && !direct.has(entry)));
    const isOf = (state: SettledPayment['state']) => candidates.filter(({ payment }) => payment.state === state);
    const [declined, completed] = [isOf('DECLINED'), isOf('COMPLETED')];
    if (completed.length > 0) shareDeclines(declined, free, shares);
    const only = onlyOf(completed.length > 0 ? completed : declined);
    if (only) shares.get(only)?.push(...free);
    return shares;
  }

  /** Takes the lines of a payment: at most one of them is the payment. */
  private settle({ payment, isOfTheDay }: Candidate, about: readonly Entry[]): void {
    const free = [...new Set(about)].filter(({ isTaken }) => !isTaken);
    for (const entry of free) entry.isTaken = true;
    const lines = free.filter(isPayment).map(({ row }) => row);
    const [unread] = free.flatMap(({ row }) => ('problem' in row ? [row] : [])).sort(byProblem);
    for (const { row } of free) if ('kind' in row && row.kind !== 'payment') this.count(row.kind, undefined, row);
    const line = best(lines, payment);
    if (line) this.compare(payment, line, isOfTheDay);
    else if (unread) this.report('unread', { ours: payment, unread });
    else if (isOfTheDay && payment.state === 'DECLINED') this.count('unlisted', payment, undefined);
    else if (isOfTheDay) this.report('ours', { ours: payment });
    if (line) this.reportDuplicates(lines, line);
  }

  private compare(payment: SettledPayment, line: StatementRow, isOfTheDay: boolean): void {
    const differs = differencesOf(payment, line);
    if (differs.length > 0) this.report('different', { differs, ours: payment, theirs: line });
    else this.count(isOfTheDay ? 'matched' : 'otherDay', payment, line);
  }

  private reportUnknown(lines: readonly StatementRow[]): void {
    const theirs = best(lines, undefined);
    if (!theirs) return;
    this.report('theirs', { theirs });
    this.reportDuplicates(lines, theirs);
  }

  private reportDuplicates(lines: readonly StatementRow[], counted: StatementRow): void {
    for (const theirs of lines) if (theirs !== counted) this.report('duplicate', { theirs, firstLine: counted.line });
  }

  private report(kind: Kind, parts: Partial<Omit<Difference, 'kind'>>): void {
    this.count(kind, parts.ours, parts.theirs);
    const none = { differs: [], ours: undefined, theirs: undefined, unread: undefined, firstLine: undefined };
    this.found({ ...none, kind, ...parts });
  }

  private count(
    kind: keyof ComparisonResult['groups'],
    ours: SettledPayment | undefined,
    theirs: StatementRow | undefined,
  ): void {
    const group = this.groups[kind];
    group.count += 1;
    if (ours?.state === 'COMPLETED') addTo(group.ours, ours.currency, unitsOf(ours));
    if (theirs && theirs.state !== 'DECLINED') addTo(group.theirs, theirs.currency, theirs.units);
  }

  private aboutKey({ idempotencyKey, transactionId }: SettledPayment): Entry[] {
    return [...this.withId(idempotencyKey), ...this.withId(transactionId)];
  }

  private note(id: string, entry: Entry): void {
    const known = this.byId.get(id);
    if (known === undefined) this.byId.set(id, entry);
    else if (Array.isArray(known)) known.push(entry);
    else if (known !== entry) this.byId.set(id, [known, entry]);
  }

  private withId(id: string): readonly Entry[] {
    const found = this.byId.get(id) ?? [];
    return Array.isArray(found) ? found : [found];
  }
}

/** Moves declined lines out of `free` to the declined attempts: the equal ones first, then for each attempt the one that differs least. */
function shareDeclines(
  declined: readonly Candidate[],
  free: Set<Entry>,
  shares: ReadonlyMap<Candidate, Entry[]>,
): void {
  const inOrder = [...declined].sort((one, other) => compareRanks(rankOfAttempt(one), rankOfAttempt(other)));
  for (const areEqual of [true, false]) {
    for (const candidate of inOrder) {
      const share = shares.get(candidate) ?? [];
      if (share.some(isPayment)) continue;
      const lines = [...free].filter(isPayment).filter(({ row }) => row.state === 'DECLINED');
      const rows = lines.map(({ row }) => row);
      const line = best(rows, candidate.payment);
      const entry = lines.find(({ row }) => row === line);
      if (!entry || (areEqual && differencesOf(candidate.payment, entry.row).length > 0)) continue;
      free.delete(entry);
      share.push(entry);
    }
  }
}

/** The one of the day, or the one of all. Undefined if it may be several. */
function onlyOf(candidates: readonly Candidate[]): Candidate | undefined {
  const today = candidates.filter(({ isOfTheDay }) => isOfTheDay);
  const [one, ...others] = today.length > 0 ? today : candidates;
  return others.length === 0 ? one : undefined;
}

function pushTo<Key, Value>(lists: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

function idsOfLine(row: StatementRow | UnreadRow): readonly string[] {
  return 'problem' in row ? row.ids : idsOf(row);
}

/** Asked only of a line that no payment of ours has taken: an order of ours may have such a name. */
function isCheck({ kind, reference, order }: StatementRow): boolean {
  return kind === 'payment' && (isOfCheck(reference) || isOfCheck(order));
}

/** A line of another state may be of another attempt, on another day. */
function isLineOf({ state }: SettledPayment, entry: Entry): boolean {
  return !isPayment(entry) || entry.row.state === 'OTHER' || entry.row.state === state;
}

function isPayment(entry: Entry): entry is PaymentEntry {
  return 'kind' in entry.row && entry.row.kind === 'payment';
}

/** The same for any order of the lines: the one that equals the payment, else the one that differs least. */
function best(lines: readonly StatementRow[], payment: SettledPayment | undefined): StatementRow | undefined {
  const ranked = lines.map((row) => ({ row, rank: payment ? rankOf(row, payment) : rankAlone(row) }));
  return ranked.sort((one, other) => compareRanks(one.rank, other.rank))[0]?.row;
}

/** The same for any order of the lines. */
function byProblem(one: UnreadRow, other: UnreadRow): number {
  return compareRanks([one.problem, one.line], [other.problem, other.line]);
}

type Rank = readonly (bigint | number | string)[];

function rankOf(row: StatementRow, payment: SettledPayment): Rank {
  const distance = row.units - unitsOf(payment);
  return [
    differencesOf(payment, row).length === 0 ? 0 : 1,
    row.currency === payment.currency ? 0 : 1,
    row.state === payment.state ? 0 : 1,
    distance < 0n ? -distance : distance,
    ...rankAlone(row),
  ];
}

function rankOfAttempt({ payment: { attempt, idempotencyKey }, isOfTheDay }: Candidate): Rank {
  return [isOfTheDay ? 0 : 1, attempt ?? 0, idempotencyKey];
}

/** A line that moved money counts: a declined line of the same payment must not hide it. */
function rankAlone(row: StatementRow): Rank {
  const { state, units, currency, reference, order, transactionId, status, line } = row;
  return [state === 'COMPLETED' ? 0 : 1, -units, currency, status, reference, order, transactionId, line];
}

function compareRanks(one: Rank, other: Rank): number {
  for (const [index, value] of one.entries()) {
    const next = other[index] as typeof value;
    if (value !== next) return value < next ? -1 : 1;
  }
  return 0;
}

function differencesOf(payment: SettledPayment, row: StatementRow): string[] {
  const differs: string[] = [];
  if (unitsOf(payment) !== row.units) differs.push('amount');
  if (payment.currency !== row.currency) differs.push('currency');
  if (payment.state !== row.state) differs.push('state');
  // Another text may be anything, such as the number of the customer.
  const isAnother = (id: string) =>
    isWholeKey(id) && id.toLowerCase() !== payment.idempotencyKey && id !== payment.reference;
  if (isAnother(row.reference) || isAnother(row.order)) differs.push('key');
  if (row.transactionId !== '' && row.transactionId !== payment.transactionId) differs.push('transaction id');
  return differs;
}

function unitsOf({ amount }: SettledPayment): bigint {
  const read = readAmount(amount, '.');
  if (!('units' in read)) throw new Error(`an amount of the service: ${amount}`);
  return read.units;
}

function emptyGroup(): Group {
  return { count: 0, ours: new Map(), theirs: new Map() };
}
