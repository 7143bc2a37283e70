import type { PaymentRow } from '#idempay/deployments/distributed/postgres/payment-row.js';
import type { HistoryRow } from '#idempay/deployments/rows.js';

/** A row of the payments' table, as both databases have it: times are milliseconds since the epoch. */
export type StoredPayment = Omit<PaymentRow & HistoryRow, 'remaining_ms' | 'age_ms' | 'repeatable'> & {
  readonly lease_until: number;
  readonly recover_at: number;
  readonly settled_hour: number | null;
};
