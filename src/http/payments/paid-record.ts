import type { PaymentRecords } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import { StoreUnavailable } from '../../platform/faults.js';

/**
 * The record of a payment that is paid, as `GET /api/payments/{key}` gives it to `client` (rule P20). Undefined where the row cannot be
 * read, or does not have this outcome, because it was lost: the outcome is known all the same, so a store that is down never withholds it.
 */
export type PaidRecord = (
  key: string,
  transactionId: string,
  client: string | undefined,
) => Promise<string | undefined>;

export function createPaidRecord(read: PaymentRecords['get']): PaidRecord {
  return async (key, transactionId, client) => {
    const payment = await read(key, client).catch((fault: unknown) => {
      if (!(fault instanceof StoreUnavailable)) throw fault;
    });
    if (payment?.state !== 'COMPLETED' || payment.transactionId !== transactionId) return undefined;
    return paymentJson(payment, client);
  };
}
