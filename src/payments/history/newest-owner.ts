import type { PaymentHistory } from '../ports/payment-history.js';

const ALL = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined } as const;

/**
 * Whether the newest payment of an order is nobody's, made without credentials. Then credentials were asked for since: references belong to their
 * client, so that every order is a new one, also one that was paid.
 */
export async function isNewestOrderNobodys(history: Pick<PaymentHistory, 'newest'>): Promise<boolean> {
  const { payments } = await history.newest({ ...ALL, limit: 1 }, 1);
  const [newest] = payments;
  return newest?.reference !== undefined && newest.client === undefined;
}
