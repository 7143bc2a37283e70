import {
  byProblem,
  compareRanks,
  type Findings,
  givenBack,
  type Rank,
  rankAlone,
  type SettledPayment,
  type SettledRefund,
  unitsOf,
} from './differences.js';
import { isWholeKey } from './ids.js';
import { isCharge } from './refund-lines.js';
import { idsOf, type StatementRow } from './row.js';
import { isCheck, isRead, isRefundLine, type ReadEntry, type StatementLines } from './statement-lines.js';

/** The names of a payment besides its key, by which a company may name it in a line about a refund. */
export type PaymentNames = Pick<SettledPayment, 'reference' | 'transactionId'>;

interface Candidate {
  readonly refund: SettledRefund;
  readonly isOfTheDay: boolean;
}

/** The refunds of one payment and the lines that name this payment, both still without the other. */
interface Open {
  readonly refunds: Candidate[];
  readonly lines: ReadEntry[];
}

/**
 * Compares the refunds of a statement with ours. A line that names a refund belongs to it. Many companies name only the payment: then a line is
 * the refund of this payment that has its amount and currency, each line of another one. Two that are left over, one on each side, differ.
 */
export class Refunds {
  /** The number of lines that were found by their payment and amount. */
  foundByPayment = 0;
  /** Refunds that no line names. */
  private readonly unnamed: Candidate[] = [];
  /** Payments of which a refund has a line of its own. */
  private readonly withLine = new Set<string>();
  /** The names of each payment by its key; undefined if the payment is not known. */
  private readonly names = new Map<string, PaymentNames | undefined>();
  private readonly lineIds: ReadonlySet<string>;

  constructor(
    private readonly lines: StatementLines,
    private readonly findings: Findings,
  ) {
    const refundLines = lines.entries.filter(isRefundLine);
    this.lineIds = new Set(refundLines.flatMap(({ row }) => idsOf(row)));
    for (const { row } of refundLines) if (row.isFailedRefund) this.takeBack(row);
  }

  /** The order number of a payment may stand in the line about its refund. */
  notePayment({ idempotencyKey, reference, transactionId }: SettledPayment): void {
    const isNamed = (reference !== null && this.lineIds.has(reference)) || this.lineIds.has(transactionId);
    if (isNamed) this.names.set(idempotencyKey, { reference, transactionId });
  }

  /** `isOfTheDay` false: only to explain lines that no refund of the day explains. */
  add(refund: SettledRefund, isOfTheDay: boolean): void {
    const about = [...new Set(this.lines.about(refund))];
    const free = about.filter(isRead).filter(({ row, isTaken }) => !isTaken && mayBeRefund(row));
    const [unread] = about.flatMap(({ row }) => ('problem' in row ? [row] : [])).sort(byProblem);
    const line = closest(free, refund, this.lines.hasSigns);
    if (line && refund.state === 'COMPLETED') this.withLine.add(refund.refund.payment);
    if (!line && !unread) {
      this.unnamed.push({ refund, isOfTheDay });
      return;
    }
    for (const entry of free) entry.isTaken = true;
    if (!line) {
      this.findings.report('refundUnread', { ours: refund, unread });
      return;
    }
    this.compare({ refund, isOfTheDay }, line);
    for (const { row } of free) if (row !== line.row) this.countRepeated(row, line.row);
  }

  /** Payments whose refunds may be on the statement under an order number that is not known here. */
  paymentsToName(): readonly string[] {
    const { pairs, left } = this.pairs();
    if (!hasRefund(left)) return [];
    const open = this.unnamed.filter((candidate) => !pairs.has(candidate));
    return [...new Set(open.map(({ refund }) => refund.refund.payment))].filter((payment) => !this.names.has(payment));
  }

  name(payment: string, names: PaymentNames | undefined): void {
    this.names.set(payment, names);
  }

  /** True if a refund on the statement is none of the refunds that came: then it may be one of a day next to it. */
  hasUnexplained(): boolean {
    return hasRefund(this.pairs().left);
  }

  end(): void {
    const { pairs, left, different } = this.pairs();
    this.foundByPayment = new Set([...pairs.values(), ...different.values()].map(({ row }) => row.line)).size;
    for (const candidate of this.unnamed) {
      const { refund, isOfTheDay } = candidate;
      const line = pairs.get(candidate) ?? different.get(candidate);
      if (line) this.compare(candidate, line);
      else if (isOfTheDay && refund.state === 'DECLINED') this.findings.count('refundUnlisted', refund, undefined);
      else if (isOfTheDay) this.findings.report('refundOurs', { ours: refund });
    }
    for (const entry of left) {
      if (entry.isTaken) continue;
      if (isCheck(entry.row)) this.findings.count('check', undefined, entry.row);
      else this.findings.report('refundTheirs', { theirs: entry.row });
    }
  }

  /** The line of a refund and the line that takes it back moved nothing together. The second one is compared, as a decline. */
  private takeBack(failed: StatementRow): void {
    const ids = idsOf(failed);
    const isFirst = ({ row, isTaken }: ReadEntry) =>
      !isTaken &&
      row.state === 'COMPLETED' &&
      row.currency === failed.currency &&
      givenBack(row) === givenBack(failed) &&
      ids.every((id) => idsOf(row).includes(id));
    const found = [...this.lines.withId(ids[0] ?? '')].filter(isRefundLine).filter(isFirst);
    const ranked = found.sort((one, other) => compareRanks(rankAlone(one.row), rankAlone(other.row)));
    // It may name less than the first line does: then only one line may be meant.
    const first =
      ranked.find(({ row }) => idsOf(row).length === ids.length) ?? (ranked.length === 1 ? ranked[0] : undefined);
    if (!first) return;
    first.isTaken = true;
    this.findings.count('other', undefined, { ...first.row, state: 'DECLINED' });
  }

  private compare({ refund, isOfTheDay }: Candidate, line: ReadEntry): void {
    line.isTaken = true;
    const theirs = statedOf(line.row, refund, this.lines.hasSigns);
    const differs = differencesOf(refund, theirs);
    if (differs.length > 0) this.findings.report('refundDifferent', { differs, ours: refund, theirs });
    else if (isOfTheDay) this.findings.count('refundMatched', refund, line.row);
    else this.findings.report('refundOtherDay', { ours: refund, theirs: line.row });
  }

  /** A company may write a line while a refund is under way, and one more when its money has moved. */
  private countRepeated(theirs: StatementRow, counted: StatementRow): void {
    if (theirs.state === 'OTHER') this.findings.count('other', undefined, theirs);
    else this.findings.report('refundDuplicate', { theirs, firstLine: counted.line });
  }

  /** The equal ones, the one on each side that is left over of a payment, and the lines of no refund. Nothing is taken. */
  private pairs() {
    const pairs = new Map<Candidate, ReadEntry>();
    const different = new Map<Candidate, ReadEntry>();
    const left = this.unexplained();
    for (const { refunds, lines } of this.openByPayment(left)) {
      const free = new Set([...lines].sort((one, other) => compareRanks(rankAlone(one.row), rankAlone(other.row))));
      for (const candidate of [...refunds].sort((one, other) => compareRanks(rankOf(one), rankOf(other)))) {
        const equal = [...free].find(({ row }) => differencesOf(candidate.refund, row).length === 0);
        if (!equal) continue;
        pairs.set(candidate, equal);
        free.delete(equal);
        left.delete(equal);
      }
      const rest = refunds.filter(
        (candidate) => candidate.isOfTheDay && candidate.refund.state === 'COMPLETED' && !pairs.has(candidate),
      );
      const [refund, ...moreRefunds] = rest;
      const sum = sumOf(rest, free);
      if (sum) {
        for (const candidate of rest) pairs.set(candidate, shareOf(sum, candidate.refund));
        left.delete(sum);
        continue;
      }
      const [line, ...moreLines] = free;
      if (refund && line && moreRefunds.length + moreLines.length === 0) different.set(refund, line);
    }
    return { pairs, different, left };
  }

  /**
   * The lines that no refund has taken. A refund that only a status tells of is left out if a refund of the same payment has a line of its own;
   * without an amount it is also left out if any refund of the payment was made.
   */
  private unexplained(): Set<ReadEntry> {
    const left = new Set(this.lines.entries.filter(isRefundLine).filter(({ isTaken }) => !isTaken));
    const statuses = [...left].filter(({ row }) => row.statedBy === 'status');
    if (statuses.length === 0) return left;
    const made = this.unnamed.filter(({ refund }) => refund.state === 'COMPLETED');
    const payments = new Set([...this.withLine, ...made.map(({ refund }) => refund.refund.payment)]);
    for (const payment of payments) {
      for (const entry of this.linesOf(payment)) {
        const { statedBy, amount } = entry.row;
        if (statedBy === 'status' && (this.withLine.has(payment) || amount === '')) left.delete(entry);
      }
    }
    return left;
  }

  /** A line whose order number two clients have paid is of neither. */
  private openByPayment(free: ReadonlySet<ReadEntry>): Iterable<Open> {
    const open = new Map<string, Open>();
    const payments = new Map<ReadEntry, Set<string>>();
    for (const candidate of this.unnamed) {
      const { payment } = candidate.refund.refund;
      const known = open.get(payment);
      if (known) {
        known.refunds.push(candidate);
        continue;
      }
      const lines = this.linesOf(payment).filter((entry) => free.has(entry));
      open.set(payment, { refunds: [candidate], lines });
      for (const line of lines) payments.set(line, (payments.get(line) ?? new Set()).add(payment));
    }
    return [...open.values()].map(({ refunds, lines }) => ({
      refunds,
      lines: lines.filter((line) => payments.get(line)?.size === 1),
    }));
  }

  private linesOf(payment: string): readonly ReadEntry[] {
    const { reference = null, transactionId = '' } = this.names.get(payment) ?? {};
    const ids = [payment, reference ?? '', transactionId].filter((id) => id !== '');
    const entries = new Set(ids.flatMap((id) => this.lines.withId(id)));
    return [...entries].filter(isRefundLine).filter(({ row }) => !namesAnother(row, payment, reference));
  }
}

const hasRefund = (lines: ReadonlySet<ReadEntry>) => [...lines].some(({ row }) => !isCheck(row));

/** A line of a statement without types may name a refund of ours, and a fee of it may do so too. */
const mayBeRefund = ({ kind, amount }: StatementRow) =>
  (kind === 'refund' || kind === 'payment' || kind === 'other') && amount !== '';

/** True if a key in the line is of another payment, or of a refund that is not ours. */
function namesAnother(row: StatementRow, payment: string, reference: string | null): boolean {
  return [row.refund, row.reference, row.order].some(
    (id) => isWholeKey(id) && id.toLowerCase() !== payment && id !== reference,
  );
}

/** The line of a payment whose refunded amount is the sum of these refunds. Undefined if there is none, or only one refund. */
function sumOf(refunds: readonly Candidate[], lines: ReadonlySet<ReadEntry>): ReadEntry | undefined {
  if (refunds.length < 2) return undefined;
  const sum = refunds.reduce((units, { refund }) => units + unitsOf(refund), 0n);
  const isSum = ({ statedBy, currency, units }: StatementRow) =>
    statedBy !== undefined && units === sum && refunds.every(({ refund }) => refund.currency === currency);
  return [...lines].find(({ row }) => isSum(row));
}

/** The part of such a line that is about one refund. */
function shareOf({ row }: ReadEntry, refund: SettledRefund): ReadEntry {
  return { row: { ...row, amount: refund.amount, units: unitsOf(refund) }, isTaken: false };
}

/** The line as it is compared. If its money came in, nothing was given back. */
function statedOf(row: StatementRow, { state }: SettledRefund, hasSigns: boolean): StatementRow {
  return state === 'COMPLETED' && isCharge(row, hasSigns) ? { ...row, state: 'DECLINED' } : row;
}

/** The same for any order of the lines: the one that equals the refund, else the one that differs least. */
function closest(lines: readonly ReadEntry[], refund: SettledRefund, hasSigns: boolean): ReadEntry | undefined {
  const rank = (entry: ReadEntry): Rank => {
    const row = statedOf(entry.row, refund, hasSigns);
    const distance = givenBack(row) - unitsOf(refund);
    const differs = differencesOf(refund, row).length;
    return [differs === 0 ? 0 : 1, row.state === refund.state ? 0 : 1, distance < 0n ? -distance : distance];
  };
  const ranked = lines.map((entry) => ({ entry, rank: [...rank(entry), ...rankAlone(entry.row)] }));
  return ranked.sort((one, other) => compareRanks(one.rank, other.rank))[0]?.entry;
}

function rankOf({ refund, isOfTheDay }: Candidate): Rank {
  return [isOfTheDay ? 0 : 1, refund.idempotencyKey];
}

function differencesOf(refund: SettledRefund, row: StatementRow): string[] {
  const differs: string[] = [];
  if (unitsOf(refund) !== givenBack(row)) differs.push('amount');
  if (refund.currency !== row.currency) differs.push('currency');
  if (refund.state !== row.state) differs.push('state');
  return differs;
}
