import type { ChargedPayment, PaymentEvents } from './context.js';
import type { KnownOutcome } from './execution.js';
import type { FindResult } from './ports/ledger.js';
import type { PaymentRecord } from './ports/payment-history.js';

/**
 * Raises the alarm if the processor told an outcome of a payment that could not be taken over with it, and the row is final with another
 * one: an operator resolved the payment while the processor was asked, or its row was lost and it was cancelled. `kept` is the state of the
 * row, which was read after the takeover; undefined if there is no row, or none that is final.
 */
export function compareWithKept(
  events: Pick<PaymentEvents, 'contradiction'>,
  payment: ChargedPayment,
  told: KnownOutcome,
  kept: PaymentRecord['state'] | undefined,
): void {
  const answered = told.state === 'succeeded' ? 'COMPLETED' : 'DECLINED';
  if (kept === undefined || kept === 'PROCESSING' || kept === answered) return;
  // A declined payment charged nothing, as a cancellation promises.
  if (kept === 'CANCELLED' && answered === 'DECLINED') return;
  events.contradiction(payment, answered, kept);
}

/** The final state of the row, for `compareWithKept`. */
export function keptIn(found: FindResult): 'COMPLETED' | 'DECLINED' | 'CANCELLED' | undefined {
  if (found.state === 'cancelled') return 'CANCELLED';
  return found.state === 'final' ? found.final.outcome.state : undefined;
}
