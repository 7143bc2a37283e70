import { amountOf } from './amounts.js';
import type { Columns } from './columns.js';
import { idsOf, refundedPart, type StatementRow } from './row.js';

export interface RefundLines {
  readonly rows: readonly StatementRow[];
  /** True if the sign of a refund says which way its money went. Some companies write a refund without one. */
  readonly hasSigns: boolean;
}

/** The rows of a statement, with what only all of them together say about refunds. */
export function withRefundLines(rows: readonly StatementRow[], columns: Columns): RefundLines {
  const hasSales = rows.some(({ type }) => /^sales?$/i.test(type));
  const typed = hasSales ? rows.map(creditAsRefund) : rows;
  const isSigned = hasSigns(typed, columns);
  return { rows: isSigned ? typed.map(returnedAsFailed) : typed, hasSigns: isSigned };
}

/** Braintree writes `sale` and `credit`, both without a sign: next to a sale, a credit is money for the payer. */
function creditAsRefund(row: StatementRow): StatementRow {
  return row.kind === 'payment' && /^credit$/i.test(row.type) ? { ...row, kind: 'refund' } : row;
}

function hasSigns(rows: readonly StatementRow[], { amount, credit, debit, side }: Columns): boolean {
  const isSided = side !== undefined || (debit !== undefined && (amount === undefined || credit !== undefined));
  return isSided || rows.some(({ kind, units }) => kind === 'refund' && units < 0n);
}

/** A refund whose money came back has failed. */
function returnedAsFailed(row: StatementRow): StatementRow {
  return row.kind === 'refund' && row.units > 0n ? { ...row, state: 'DECLINED', isFailedRefund: true } : row;
}

const CHARGED = /^(?:charges?|sales?|captured?|purchases?)$/i;

/** True if the money of a line came in. Then the line is no refund, also if it has the key of one. */
export function isCharge({ kind, type, units }: StatementRow, hasSigns: boolean): boolean {
  return units > 0n && ((hasSigns && kind !== 'refund') || CHARGED.test(type));
}

/** A line of a refund for each payment whose own line says that money was given back, unless the statement has one already. */
export function statedRefunds(rows: readonly StatementRow[]): readonly StatementRow[] {
  const stated = rows.flatMap(statedRefundOf);
  if (stated.length === 0) return [];
  const listed = idsOfAll(rows.filter(({ kind }) => kind === 'refund'));
  // Such a line is a difference by itself, if nothing of ours explains it.
  const debited = idsOfAll(rows.filter(({ isUntypedDebit }) => isUntypedDebit));
  return stated.filter((row) => {
    const ids = idsOf(row);
    return !ids.some((id) => listed.has(id) || (row.statedBy === 'status' && debited.has(id)));
  });
}

function statedRefundOf(payment: StatementRow): StatementRow[] {
  const { kind, state, refundedUnits: units, currency } = payment;
  const part = refundedPart(payment.status);
  if (kind !== 'payment' || state !== 'COMPLETED' || (units === 0n && part === undefined)) return [];
  const row = { ...payment, kind: 'refund', type: 'refund', refundedUnits: 0n } as const;
  if (units !== 0n) return [{ ...row, units, amount: amountOf(units, currency), statedBy: 'amount' }];
  return [{ ...row, ...(part === 'some' && { units: 0n, amount: '' }), statedBy: 'status' }];
}

const idsOfAll = (rows: readonly StatementRow[]): ReadonlySet<string> => new Set(rows.flatMap(idsOf));
