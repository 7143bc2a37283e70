import {
  byProblem,
  compareRanks,
  type Difference,
  Findings,
  type Groups,
  isRefund,
  type Rank,
  rankAlone,
  type SettledPayment,
  type SideKind,
  unitsOf,
} from './differences.js';
import { isWholeKey, OUR_TRANSACTION } from './ids.js';
import { type PaymentNames, Refunds } from './refunds.js';
import { idsOf, type StatementRow } from './row.js';
import type { StatementContent } from './statement.js';
import { type Entry, isCheck, isRead, type ReadEntry, StatementLines } from './statement-lines.js';

export interface ComparisonResult {
  /** True if a line of any kind names a payment of the day, by its key, order number or transaction id. */
  readonly isDayNamed: boolean;
  /** The number of refund lines that name only the payment, and were found by the amounts of its refunds. */
  readonly refundsFoundByPayment: number;
  readonly groups: Groups;
}

interface Candidate {
  readonly payment: SettledPayment;
  readonly isOfTheDay: boolean;
}

/**
 * Compares a statement with payments, in any order of both. If a payment has several lines, the one that equals it counts; a negative line,
 * a refund or a fee is never the payment. `found` is called with each difference at once, so that none is kept here.
 */
export class Comparison {
  private readonly lines: StatementLines;
  private readonly findings: Findings;
  private readonly refunds: Refunds;
  /** Payments whose order number is on the statement, by it. */
  private readonly byOrder = new Map<string, Candidate[]>();
  private isDayNamed = false;

  constructor(statement: StatementContent, found: (difference: Difference) => void) {
    this.lines = new StatementLines(statement);
    this.findings = new Findings(found);
    this.refunds = new Refunds(this.lines, this.findings);
  }

  /** `isOfTheDay` false: only to explain lines that no payment of the day explains. */
  add(payment: SettledPayment, isOfTheDay: boolean): void {
    const about = this.lines.about(payment);
    if (isRefund(payment)) {
      const isNamed = about.length > 0 || this.lines.has(payment.refund.payment);
      if (isOfTheDay && isNamed) this.isDayNamed = true;
      this.refunds.add(payment, isOfTheDay);
      return;
    }
    const candidate = { payment, isOfTheDay };
    const { reference } = payment;
    const isOrderNamed = reference !== null && this.lines.has(reference);
    if (isOfTheDay && (isOrderNamed || about.length > 0)) this.isDayNamed = true;
    if (isOrderNamed || about.length > 0) this.refunds.notePayment(payment);
    if (isOrderNamed) pushTo(this.byOrder, reference, candidate);
    else if (about.length > 0 || isOfTheDay) this.settle(candidate, about);
  }

  /** Payments without which a refund of theirs may not be found, because the statement names it by an order number. */
  paymentsToName(): readonly string[] {
    return this.refunds.paymentsToName();
  }

  /** The answer about one of them. Undefined if it is not known. */
  namePayment(payment: string, names: PaymentNames | undefined): void {
    this.refunds.name(payment, names);
  }

  /** True if a payment or a refund on the statement is none of those that came: then it may be one of a day next to it. */
  hasUnexplained(): boolean {
    const explained = new Set<Entry>();
    for (const [reference, candidates] of this.byOrder) {
      for (const [{ payment }, share] of this.shareOut(reference, candidates)) {
        for (const entry of share) if (isLineOf(payment, entry)) explained.add(entry);
      }
    }
    const isExplained = this.lines.entries.every(
      (entry) =>
        !(isPayment(entry) || isNamedDebit(entry)) || isCheck(entry.row) || entry.isTaken || explained.has(entry),
    );
    return !isExplained || this.refunds.hasUnexplained();
  }

  end(): ComparisonResult {
    for (const [reference, candidates] of this.byOrder) {
      for (const [candidate, about] of this.shareOut(reference, candidates)) this.settle(candidate, about);
    }
    const unknown = new Map<string, StatementRow[]>();
    for (const { row, isTaken } of this.lines.entries) {
      if (isTaken || !('kind' in row) || row.kind === 'refund') continue;
      const side = this.sideOf(row, row.kind);
      if (side) this.findings.count(side, undefined, row);
      else if (row.kind === 'payment') pushTo(unknown, row.order || row.reference || row.transactionId, row);
      else this.findings.report('refundTheirs', { theirs: row });
    }
    for (const lines of unknown.values()) this.reportUnknown(lines);
    this.refunds.end();
    this.lines.forget();
    const { groups } = this.findings;
    return { isDayNamed: this.isDayNamed, refundsFoundByPayment: this.refunds.foundByPayment, groups };
  }

  /** The group of a line that is no difference, although nothing of ours explains it. Undefined if it is one. */
  private sideOf(row: StatementRow, kind: SideKind | 'payment'): SideKind | 'theirsDeclined' | undefined {
    if (isCheck(row)) return 'check';
    if (kind === 'payment') return row.state === 'DECLINED' ? 'theirsDeclined' : undefined;
    return row.isUntypedDebit && this.namesOurs(row) ? undefined : kind;
  }

  /** True if the line names a key or a transaction id of ours, or the order number of a payment that came. */
  private namesOurs(row: StatementRow): boolean {
    return idsOf(row).some((id) => isWholeKey(id) || OUR_TRANSACTION.test(id) || this.byOrder.has(id));
  }

  /**
   * The lines of an order for each of its payments. A line that names a key belongs to that payment. Any other declined line belongs to a
   * declined attempt. The rest belongs to the payment that was made, if only one is possible: two clients may have the same order number.
   */
  private shareOut(reference: string, candidates: readonly Candidate[]): ReadonlyMap<Candidate, readonly Entry[]> {
    const shares = new Map(candidates.map((candidate) => [candidate, [...this.lines.about(candidate.payment)]]));
    const direct = new Set([...shares.values()].flat());
    const free = new Set(this.lines.withId(reference).filter((entry) => !entry.isTaken && !direct.has(entry)));
    const isOf = (state: SettledPayment['state']) => candidates.filter(({ payment }) => payment.state === state);
    const [declined, completed] = [isOf('DECLINED'), isOf('COMPLETED')];
    if (completed.length > 0) shareDeclines(declined, free, shares);
    const only = onlyOf(completed.length > 0 ? completed : declined);
    if (only) shares.get(only)?.push(...free);
    return shares;
  }

  /** Takes the lines of a payment: at most one of them is the payment. Refunds and fees that name it are not taken. */
  private settle({ payment, isOfTheDay }: Candidate, about: readonly Entry[]): void {
    const free = [...new Set(about)].filter((entry) => !entry.isTaken && (isPayment(entry) || !isRead(entry)));
    for (const entry of free) entry.isTaken = true;
    const lines = free.filter(isPayment).map(({ row }) => row);
    const [unread] = free.flatMap(({ row }) => ('problem' in row ? [row] : [])).sort(byProblem);
    const line = best(lines, payment);
    if (line) this.compare(payment, line, isOfTheDay);
    else if (unread) this.findings.report('unread', { ours: payment, unread });
    else if (isOfTheDay && payment.state === 'DECLINED') this.findings.count('unlisted', payment, undefined);
    else if (isOfTheDay) this.findings.report('ours', { ours: payment });
    if (line) this.reportDuplicates(lines, line);
  }

  private compare(payment: SettledPayment, line: StatementRow, isOfTheDay: boolean): void {
    const differs = differencesOf(payment, line);
    if (differs.length > 0) this.findings.report('different', { differs, ours: payment, theirs: line });
    else if (isOfTheDay) this.findings.count('matched', payment, line);
    else this.findings.report('otherDay', { ours: payment, theirs: line });
  }

  private reportUnknown(lines: readonly StatementRow[]): void {
    const theirs = best(lines, undefined);
    if (!theirs) return;
    this.findings.report('theirs', { theirs });
    this.reportDuplicates(lines, theirs);
  }

  private reportDuplicates(lines: readonly StatementRow[], counted: StatementRow): void {
    for (const theirs of lines)
      if (theirs !== counted) this.findings.report('duplicate', { theirs, firstLine: counted.line });
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

/** A line of another state may be of another attempt, on another day. */
function isLineOf({ state }: SettledPayment, entry: Entry): boolean {
  return !isPayment(entry) || entry.row.state === 'OTHER' || entry.row.state === state;
}

function isPayment(entry: Entry): entry is ReadEntry {
  return isRead(entry) && entry.row.kind === 'payment';
}

/** It may be about a refund, or a payment, of a day next to the chosen one. */
function isNamedDebit(entry: Entry): entry is ReadEntry {
  return isRead(entry) && entry.row.isUntypedDebit && idsOf(entry.row).length > 0;
}

/** The same for any order of the lines: the one that equals the payment, else the one that differs least. */
function best(lines: readonly StatementRow[], payment: SettledPayment | undefined): StatementRow | undefined {
  const ranked = lines.map((row) => ({ row, rank: payment ? rankOf(row, payment) : rankAlone(row) }));
  return ranked.sort((one, other) => compareRanks(one.rank, other.rank))[0]?.row;
}

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
