import { TRANSACTION_CACHE } from '../../transactions/transaction-cache.js';

/** Before every key of ours, so that a shared Redis stays tidy. */
const PREFIX = 'idempay:';

/** The channel on which the ends of watched locks are announced. The message is the lock's name. */
export const LOCK_ENDS = `${PREFIX}lock-ends`;

/** The braces are the Cluster's hash tag: all keys of one payment, or of one transaction, lie in one slot. */
export function paymentKeys(key: string): { record: string; lock: string } {
  const record = `${PREFIX}{${key}}`;
  return { record, lock: `${record}:lock` };
}

export function cacheKeys(id: number | string): { entry: string; fill: string; marks: string } {
  const entry = `${PREFIX}{${TRANSACTION_CACHE}::${id}}`;
  return { entry, fill: `${entry}:fill`, marks: `${entry}:marks` };
}
