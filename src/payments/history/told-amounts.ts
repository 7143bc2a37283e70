import type { PaymentHistory } from '../ports/payment-history.js';
import type { Processor } from '../ports/processor.js';

/** More than the newest payments that are likely to be under way, or declined. */
const LOOKED_AT = 100;
const COMPLETED = { state: 'COMPLETED', claimedFrom: undefined, claimedTo: undefined, before: undefined } as const;

/**
 * Whether the processor's look-ups say what was charged, tried with the newest payment. Undefined if that is not known: nothing was paid, or
 * there was no answer. After rows were lost, a payment of an adapter that does not say it waits for an operator.
 */
export async function tellsAmounts(
  processor: Pick<Processor, 'traits' | 'lookUp'>,
  history: Pick<PaymentHistory, 'newest'>,
): Promise<boolean | undefined> {
  const { name } = processor.traits;
  const { payments } = await history.newest({ ...COMPLETED, processor: name, limit: 1 }, LOOKED_AT);
  const [newest] = payments;
  if (!newest) return undefined;
  const found = await processor.lookUp(newest.key);
  return found.state === 'succeeded' ? found.charged !== undefined : undefined;
}
