import { lookUp } from '../asking.js';
import type { PaymentContext } from '../context.js';
import type { ClaimedPayment } from '../ports/payment-history.js';
import { namesOf, type OpenCharge } from '../ports/processor.js';
import { type OfPayer, quotesPayer, withoutPayer } from '../processors/decline-reason.js';

/** Look-ups for operators under way in this process: a page that asks again and again must not take the connections of payments. */
const MAX_UNDER_WAY = 4;

/** Asks the processor what it knows of a payment, finished or not. Sends no charge and writes nothing. */
export type AskProcessor = (key: string) => Promise<ProcessorKnowledge>;

export type ProcessorKnowledge =
  | {
      readonly state: 'answered';
      readonly processor: string;
      /** Milliseconds since the epoch. */
      readonly askedAt: number;
      readonly answer: 'succeeded' | 'declined' | 'pending' | 'no record' | 'unknown';
      /** Why it was declined, or why it is unknown. */
      readonly reason: string | undefined;
    }
  /** This instance has another processor, or another account there, and cannot ask. */
  | { readonly state: 'of another processor'; readonly processor: string }
  /** `MAX_UNDER_WAY` look-ups are under way. */
  | { readonly state: 'busy' }
  /** Nothing was paid with the key. */
  | { readonly state: 'not found' };

export function createAskProcessor(
  context: Pick<PaymentContext, 'history' | 'ledger' | 'processor' | 'clock'>,
): AskProcessor {
  const { history, ledger, processor, clock } = context;
  let underWay = 0;

  return async function askProcessor(key) {
    // Before the row is read: of one that is not final then it is complete.
    const payer = await ledger.payerOf(key);
    const payment = await history.find(key);
    if (!payment || payment.state === 'CANCELLED') return { state: 'not found' };
    if (!namesOf(processor.traits).includes(payment.processor)) {
      return { state: 'of another processor', processor: payment.processor };
    }
    if (underWay >= MAX_UNDER_WAY) return { state: 'busy' };
    underWay += 1;
    try {
      const askedAt = clock.now();
      const found = await lookUp(processor, payment, true, openOf(payment));
      const declined = found.state === 'declined' ? shownReason(found.reason, payment, payer) : undefined;
      const reason = found.state === 'unknown' ? found.cause : declined;
      return { state: 'answered', processor: payment.processor, askedAt, answer: found.state, reason };
    } finally {
      underWay -= 1;
    }
  };
}

/** The open charge of a payment; undefined if a reply under any contract counts for it. */
export function openOf({ pendingUntil, ending, state, processorId }: ClaimedPayment): OpenCharge | undefined {
  const isOpen = state === 'PROCESSING' && (pendingUntil !== undefined || ending !== undefined);
  return isOpen ? { id: processorId } : undefined;
}

/** Without the source and the return address (rules P19 and P24). A final payment has them no more: then the row has the reason without them. */
function shownReason(told: string, { state, reason }: ClaimedPayment, payer: OfPayer | undefined): string {
  if (payer === undefined && state === 'DECLINED' && reason !== undefined && quotesPayer(reason)) return reason;
  return withoutPayer(told, payer);
}
