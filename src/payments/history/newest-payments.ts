import type { PaymentHistory } from '../ports/payment-history.js';
import type { Processor } from '../ports/processor.js';

// A start looks at the newest payments, because they tell its operator of a setting that does not fit them.

/**
 * Payments that are looked at: more than the newest ones that are likely to be under way or declined, or to have a generated key, such as
 * somebody's tries.
 */
const LOOKED_AT = 100;

/**
 * True if the newest order among the newest payments was paid without credentials. If they are asked for now, references belong to their
 * client, so that every order is a new one, also one that was paid.
 */
export async function isNewestOrderNobodys(history: Pick<PaymentHistory, 'newest'>): Promise<boolean> {
  const { payments } = await history.newest({ limit: LOOKED_AT }, LOOKED_AT);
  const order = payments.find(({ reference }) => reference !== undefined);
  return order !== undefined && order.client === undefined;
}

/**
 * True if the processor's look-ups say which amount was charged, tried with the newest payment. Undefined if that is not known: nothing was
 * paid, or there was no answer. After rows were lost, a payment of an adapter that does not say it waits for an operator.
 */
export async function tellsAmounts(
  processor: Pick<Processor, 'traits' | 'lookUp'>,
  history: Pick<PaymentHistory, 'newest'>,
): Promise<boolean | undefined> {
  const { name } = processor.traits;
  const { payments } = await history.newest({ state: 'COMPLETED', processor: name, limit: 1 }, LOOKED_AT);
  const [newest] = payments;
  if (!newest) return undefined;
  const found = await processor.lookUp(newest.key);
  return found.state === 'succeeded' ? found.charged !== undefined : undefined;
}
