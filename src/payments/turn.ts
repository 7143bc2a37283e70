import type { Turn, TurnRefusal } from './ports/ledger.js';
import type { PaymentRecord } from './ports/payment-history.js';
import type { ComputeKey, Reference } from './values/reference.js';

/** Retention removes neither a decline that an attempt follows nor a refunded payment for this time, which is longer than any claim takes. */
const SAFE_FROM_REMOVAL_MS = 3_600_000;

/** A payment that was settled longer ago, by the time of retention, is removed soon. Undefined if rows are kept for ever. */
export function lateMsOf({ retentionMs }: { readonly retentionMs?: number | undefined }): number | undefined {
  return retentionMs === undefined ? undefined : retentionMs - SAFE_FROM_REMOVAL_MS;
}

/** The ledger's question about the attempt before, which it asks when one is claimed or cancelled. */
export type TurnOf = (reference: Reference) => Turn;

export function createTurnOf(computeKey: ComputeKey, rules: { readonly retentionMs?: number | undefined }): TurnOf {
  const lateMs = lateMsOf(rules);
  return (reference) => {
    const { attempt } = reference;
    const previousKey = attempt > 1 ? computeKey({ ...reference, attempt: attempt - 1 }) : undefined;
    return { reference, previousKey, lateMs };
  };
}

const REFUSED = {
  PROCESSING: 'under way',
  PENDING: 'pending',
  COMPLETED: 'completed',
  CANCELLED: 'cancelled',
  DECLINED: 'declined too long ago',
} as const;

/**
 * The reason why it is not the turn of the next attempt, or undefined if it is.
 * @param previous The state of the attempt before, `PENDING` if it waits at the processor, or undefined if it has no row.
 * @param isInTime True if that attempt, if it was declined, is young enough to be followed.
 */
export function refusalAfter(
  previous: PaymentRecord['state'] | 'PENDING' | undefined,
  isInTime: boolean,
): Extract<TurnRefusal, { state: 'not its turn' }> | undefined {
  if (previous === 'DECLINED' && isInTime) return undefined;
  return { state: 'not its turn', previous: previous === undefined ? 'absent' : REFUSED[previous] };
}
