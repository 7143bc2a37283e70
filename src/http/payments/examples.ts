import { ExportTotals } from '../../payments/history/export-totals.js';
import type { ShownPayment } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { ClaimedPayment } from '../../payments/ports/payment-history.js';
import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID } from '../errors/public-errors.js';

/** The examples are written by the functions that write the answers, so that they cannot say anything else. */
export const completed: ClaimedPayment = {
  key: EXAMPLE_KEY,
  reference: undefined,
  attempt: undefined,
  state: 'COMPLETED',
  amount: '100.50',
  currency: 'USD',
  description: undefined,
  metadata: undefined,
  transactionId: EXAMPLE_PAYMENT_ID,
  client: undefined,
  processor: 'simulated',
  executions: 1,
  claimedAt: Date.UTC(2026, 10, 20, 13, 0, 1),
  settledAt: Date.UTC(2026, 10, 20, 13, 0, 2),
  reason: undefined,
  resolution: undefined,
};

export const examplePayment = (changes: Partial<ClaimedPayment> = {}): unknown => shown({ ...completed, ...changes });
export const pendingPayment = (): unknown => shown({ state: 'PENDING', key: EXAMPLE_KEY });
export function exportText(): string {
  const totals = new ExportTotals();
  totals.add([completed]);
  return `${paymentJson(completed, undefined)}\n${totals.json()}\n`;
}

function shown(payment: ShownPayment): unknown {
  return JSON.parse(paymentJson(payment, undefined));
}
