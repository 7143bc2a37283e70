import type { TurnRefusal } from '../../payments/ports/ledger.js';
import type { PaymentRecord } from '../../payments/ports/payment-history.js';

const REFUSED = {
  PROCESSING: 'under way',
  COMPLETED: 'completed',
  CANCELLED: 'cancelled',
  DECLINED: 'declined too long ago',
} as const;

/**
 * Why it is not the turn of the next attempt, or undefined where it is.
 * @param previous The state of the attempt before, or undefined where it has no row.
 * @param isInTime Whether that attempt, where it was declined, is young enough to be followed.
 */
export function refusalAfter(previous: PaymentRecord['state'] | undefined, isInTime: boolean): TurnRefusal | undefined {
  if (previous === 'DECLINED' && isInTime) return undefined;
  return { state: 'not its turn', previous: previous === undefined ? 'absent' : REFUSED[previous] };
}
