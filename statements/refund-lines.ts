import type { StatementRow } from './row.js';

/** The rows of a statement, with what only all of them together say about refunds. */
export function withRefundLines(rows: readonly StatementRow[]): readonly StatementRow[] {
  const hasSales = rows.some(({ type }) => /^sales?$/i.test(type));
  return hasSales ? rows.map(creditAsRefund) : rows;
}

/** Braintree writes `sale` and `credit`, both without a sign: next to a sale, a credit is money for the payer. */
function creditAsRefund(row: StatementRow): StatementRow {
  return row.kind === 'payment' && /^credit$/i.test(row.type) ? { ...row, kind: 'refund' } : row;
}
