import { amountOf } from './amounts.js';
import type { Columns } from './columns.js';
import { idsOf, type StatementRow } from './row.js';

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

/** True of a line whose money came in, so that it is no refund, although it has the key of one. */
export function isCharge({ kind, type, units }: StatementRow, hasSigns: boolean): boolean {
  return units > 0n && ((hasSigns && kind !== 'refund') || CHARGED.test(type));
}

/** A line of a refund for each payment whose own line says that money was given back, unless the statement has one already. */
export function statedRefunds(rows: readonly StatementRow[]): readonly StatementRow[] {
  const stating = rows.filter(({ kind, state, refundedUnits }) => {
    return kind === 'payment' && state === 'COMPLETED' && refundedUnits !== 0n;
  });
  if (stating.length === 0) return [];
  const listed = new Set(rows.filter(({ kind }) => kind === 'refund').flatMap(idsOf));
  return stating.filter((row) => !idsOf(row).some((id) => listed.has(id))).map(refundOf);
}

function refundOf({ refundedUnits: units, ...row }: StatementRow): StatementRow {
  return { ...row, kind: 'refund', type: 'refund', units, amount: amountOf(units, row.currency), refundedUnits: 0n };
}
