import { csvLine } from './spreadsheet-text.js';

/**
 * The columns of payments and refunds: members of their records, and the parts of a refund. Amounts have no sign, so `kind` says which
 * way the money went. New columns are added at the end, so that they move no column of a spreadsheet.
 */
export const PAYMENT_COLUMNS = [
  'idempotencyKey',
  'reference',
  'attempt',
  'state',
  'amount',
  'currency',
  'transactionId',
  'processor',
  'executions',
  'reason',
  'resolution',
  'createdAt',
  'claimedAt',
  'settledAt',
  'description',
  'metadata',
  'client',
  'kind',
  'refunded',
  'refundOf',
  'refundName',
  'refundReason',
  'processorId',
] as const;

type Column = (typeof PAYMENT_COLUMNS)[number];
/** The columns that no record has under their name. */
type RefundColumn = 'kind' | 'refundOf' | 'refundName' | 'refundReason';

type Cell = string | number | null | undefined;
/** `metadata` is the only object in them. */
export type PaymentCells = { readonly [column in Column]?: Cell | Readonly<Record<string, string>> };

/** A record of the service, as far as a table shows it. */
export interface PaymentRow extends Omit<PaymentCells, RefundColumn> {
  readonly refund?:
    | { readonly payment: string; readonly name: string; readonly reason?: string | null | undefined }
    | undefined;
}

export function paymentCells({ refund, ...payment }: PaymentRow): PaymentCells {
  return {
    ...payment,
    kind: refund ? 'refund' : 'payment',
    refundOf: refund?.payment,
    refundName: refund?.name,
    refundReason: refund?.reason,
  };
}

/** With the mark by which a spreadsheet knows UTF-8. */
export const PAYMENT_CSV_HEADER = `\ufeff${csvLine(PAYMENT_COLUMNS)}`;

/** A payment or a refund for a spreadsheet, which runs no text of it as a formula. */
export function paymentCsvLine(payment: PaymentRow): string {
  const cells = paymentCells(payment);
  return csvLine(
    PAYMENT_COLUMNS.map((column) => {
      const value = cells[column];
      return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
    }),
  );
}
