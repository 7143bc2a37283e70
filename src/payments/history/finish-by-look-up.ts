import type { Clock } from '../../platform/clock.js';
import type { CarryOut } from '../execution.js';
import type { Ledger } from '../ports/ledger.js';
import type { ClaimedPayment, PaymentHistory } from '../ports/payment-history.js';
import type { Processor } from '../ports/processor.js';
import type { RecoveryEvents } from '../recovery.js';
import type { Outcome } from '../values/payment.js';

/** Finishes a payment if its processor knows the outcome; sends nothing. An operator's verdict begins with this. */
export function createFinishByLookUp(collaborators: {
  ledger: Ledger;
  history: PaymentHistory;
  processor: Processor;
  carryOut: CarryOut;
  leaseMs: number;
  clock: Clock;
  newOwner: () => string;
  events: Pick<RecoveryEvents, 'contradiction' | 'unknown'>;
}): (key: string) => Promise<void> {
  const { ledger, history, processor, carryOut, leaseMs, clock, newOwner, events } = collaborators;
  const { name, formerNames } = processor.traits;

  return async function finishByLookUp(key) {
    const payment = await history.find(key);
    if (payment?.state !== 'PROCESSING' || ![name, ...formerNames].includes(payment.processor)) return;
    // A row that was claimed after a loss may have another amount than was charged: `carryOut` compares the two.
    const money = (await ledger.mayBeLost(key)) ? undefined : payment;
    const { state } = await processor.lookUp(key, money);
    if (state === 'no record' || state === 'unknown') return;
    const answered = state === 'succeeded' ? 'COMPLETED' : 'DECLINED';
    const askedAt = clock.monotonic();
    const owner = newOwner();
    const claim = await ledger.takeOver({ key, owner, leaseMs, processor: name, formerProcessors: formerNames });
    if (!claim) return compareWithKept(payment, answered);
    const result = await carryOut(claim, askedAt, 'operator');
    if (result.state === 'unknown' || result.state === 'not sent') events.unknown(claim, result.cause);
  };

  /** The payment may have been resolved while the processor was asked, or its row was lost and it was cancelled. */
  async function compareWithKept(payment: ClaimedPayment, answered: Outcome['state']): Promise<void> {
    const kept = await history.find(payment.key);
    if (!kept || kept.state === 'PROCESSING' || kept.state === answered) return;
    // What was declined charged nothing, as a cancellation promises.
    if (kept.state === 'CANCELLED' && answered === 'DECLINED') return;
    events.contradiction(kept.state === 'CANCELLED' ? payment : kept, answered, kept.state);
  }
}
