import type { Columns } from './columns.js';
import type { StatementRow } from './row.js';

/** The rows of a statement, with what only all of them together say about refunds. */
export function withRefundLines(rows: readonly StatementRow[], columns: Columns): readonly StatementRow[] {
  const hasSales = rows.some(({ type }) => /^sales?$/i.test(type));
  const typed = hasSales ? rows.map(creditAsRefund) : rows;
  return hasSigns(typed, columns) ? typed.map(returnedAsFailed) : typed;
}

/** Braintree writes `sale` and `credit`, both without a sign: next to a sale, a credit is money for the payer. */
function creditAsRefund(row: StatementRow): StatementRow {
  return row.kind === 'payment' && /^credit$/i.test(row.type) ? { ...row, kind: 'refund' } : row;
}

/** True if the sign of a refund says which way its money went. Some companies write a refund without one. */
function hasSigns(rows: readonly StatementRow[], { amount, debit, side }: Columns): boolean {
  const isSided = side !== undefined || (amount === undefined && debit !== undefined);
  return isSided || rows.some(({ kind, units }) => kind === 'refund' && units < 0n);
}

/** A refund whose money came back has failed. */
function returnedAsFailed(row: StatementRow): StatementRow {
  return row.kind === 'refund' && row.units > 0n ? { ...row, state: 'DECLINED', isFailedRefund: true } : row;
}
