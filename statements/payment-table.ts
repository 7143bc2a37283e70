import { csvLine } from './spreadsheet-text.js';

/** Every member of a payment. New ones are added at the end, so that they move no column of a spreadsheet. */
export const PAYMENT_MEMBERS = [
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
] as const;

type Member = (typeof PAYMENT_MEMBERS)[number];
export type PaymentCells = {
  readonly [member in Member]?: string | number | Readonly<Record<string, string>> | null | undefined;
};

/** With the mark by which a spreadsheet knows UTF-8. */
export const PAYMENT_CSV_HEADER = `\ufeff${csvLine(PAYMENT_MEMBERS)}`;

/** A payment for a spreadsheet, which runs no text of it as a formula. */
export function paymentCsvLine(payment: PaymentCells): string {
  return csvLine(
    PAYMENT_MEMBERS.map((member) => {
      const value = payment[member];
      return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
    }),
  );
}
