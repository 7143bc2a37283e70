import { addTo, type Decimals, noteDecimals, readAmount, type Totals } from './amounts.js';
import type { StatementRow } from './statement-row.js';

/** A line of our export. */
export interface SettledPayment {
  readonly idempotencyKey: string;
  readonly state: 'COMPLETED' | 'DECLINED';
  readonly amount: string;
  readonly currency: string;
  readonly transactionId: string;
  readonly claimedAt: string | null;
  readonly settledAt: string | null;
}

/** The kinds of differences, most important first. */
export const KINDS = ['different', 'theirs', 'ours', 'duplicate'] as const;
export type Kind = (typeof KINDS)[number];

export interface Difference {
  readonly kind: Kind;
  /** What differs, where both have the payment. */
  readonly differs: readonly string[];
  readonly ours: SettledPayment | undefined;
  readonly theirs: StatementRow | undefined;
  /** For a duplicate: the line that counts. */
  readonly firstLine: number | undefined;
}

export interface Group {
  count: number;
  /** The sum of what was completed: a decline moves no money. */
  readonly ours: Totals;
  readonly theirs: Totals;
}

export interface Comparison {
  /** All rows of the statement come first, then the payments. */
  addRow(row: StatementRow): void;
  /** `isOfTheDay` false: only to explain rows that no payment of the day explains. */
  addPayment(payment: SettledPayment, isOfTheDay: boolean): void;
  /** Rows that no payment was found for, yet. */
  readonly unexplained: number;
  end(): ComparisonResult;
}

export interface ComparisonResult {
  readonly groups: Readonly<Record<Kind | Agreement, Group>>;
  readonly decimals: Decimals;
}

/** `otherDay`: the same, but settled with us on a day beside the chosen one. `unlisted`: declined with us and not on the statement. */
export type Agreement = 'matched' | 'otherDay' | 'unlisted';

/** `found` is called with each difference at once, so that none is kept here. */
export function createComparison(found: (difference: Difference) => void): Comparison {
  const byReference = new Map<string, StatementRow>();
  const byTransaction = new Map<string, StatementRow>();
  const groups: Record<Kind | Agreement, Group> = {
    different: emptyGroup(),
    theirs: emptyGroup(),
    ours: emptyGroup(),
    duplicate: emptyGroup(),
    matched: emptyGroup(),
    otherDay: emptyGroup(),
    unlisted: emptyGroup(),
  };
  const decimals: Decimals = new Map();
  /** Rows that have not been matched. */
  let unexplained = 0;

  function count(kind: Kind | Agreement, ours: SettledPayment | undefined, theirs: StatementRow | undefined): void {
    const group = groups[kind];
    group.count += 1;
    if (ours?.state === 'COMPLETED') {
      addTo(group.ours, ours.currency, unitsOf(ours));
      noteDecimals(decimals, ours.currency, ours.amount);
    }
    if (theirs && theirs.state !== 'DECLINED') {
      addTo(group.theirs, theirs.currency, theirs.units);
      noteDecimals(decimals, theirs.currency, theirs.amount);
    }
  }

  function report(difference: Difference): void {
    count(difference.kind, difference.ours, difference.theirs);
    found(difference);
  }

  function keep(row: StatementRow): void {
    if (row.reference !== '') byReference.set(row.reference, row);
    if (row.transactionId !== '') byTransaction.set(row.transactionId, row);
  }

  function forget(row: StatementRow): void {
    unexplained -= 1;
    byReference.delete(row.reference);
    byTransaction.delete(row.transactionId);
  }

  return {
    get unexplained() {
      return unexplained;
    },

    addRow(row) {
      const earlier = byReference.get(row.reference) ?? byTransaction.get(row.transactionId);
      if (!earlier) {
        unexplained += 1;
        keep(row);
        return;
      }
      // The row that moved money counts: a declined row of the same payment must not hide it.
      const isBetter = row.state === 'COMPLETED' && earlier.state !== 'COMPLETED';
      if (isBetter) {
        forget(earlier);
        unexplained += 1;
        keep(row);
      }
      const [counted, other] = isBetter ? [row, earlier] : [earlier, row];
      report({ kind: 'duplicate', differs: [], ours: undefined, theirs: other, firstLine: counted.line });
    },

    addPayment(payment, isOfTheDay) {
      const row = byReference.get(payment.idempotencyKey) ?? byTransaction.get(payment.transactionId);
      if (!row) {
        if (!isOfTheDay) return;
        if (payment.state === 'DECLINED') count('unlisted', payment, undefined);
        else report({ kind: 'ours', differs: [], ours: payment, theirs: undefined, firstLine: undefined });
        return;
      }
      forget(row);
      const differs = differencesOf(payment, row);
      if (differs.length > 0) report({ kind: 'different', differs, ours: payment, theirs: row, firstLine: undefined });
      else count(isOfTheDay ? 'matched' : 'otherDay', payment, row);
    },

    end() {
      for (const row of new Set([...byReference.values(), ...byTransaction.values()])) {
        report({ kind: 'theirs', differs: [], ours: undefined, theirs: row, firstLine: undefined });
      }
      byReference.clear();
      byTransaction.clear();
      return { groups, decimals };
    },
  };
}

function differencesOf(payment: SettledPayment, row: StatementRow): string[] {
  const differs: string[] = [];
  if (unitsOf(payment) !== row.units) differs.push('amount');
  if (payment.currency !== row.currency) differs.push('currency');
  if (payment.state !== row.state) differs.push('state');
  if (row.reference !== '' && row.reference !== payment.idempotencyKey) differs.push('reference');
  if (row.transactionId !== '' && row.transactionId !== payment.transactionId) differs.push('transaction id');
  return differs;
}

function unitsOf({ amount }: SettledPayment): bigint {
  const read = readAmount(amount);
  if ('problem' in read) throw new Error(`an amount of the service: ${amount}`);
  return read.units;
}

function emptyGroup(): Group {
  return { count: 0, ours: new Map(), theirs: new Map() };
}
