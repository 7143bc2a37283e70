import type { PaymentHistory } from '../ports/payment-history.js';

/** More than the payments with a generated key, such as somebody's tries, that are likely to be newer than the newest order. */
const LOOKED_AT = 100;
const ANY = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined } as const;

/**
 * Whether the newest order among the newest payments was paid without credentials. If they are asked for now, references belong to their
 * client, so that every order is a new one, also one that was paid.
 */
export async function isNewestOrderNobodys(history: Pick<PaymentHistory, 'newest'>): Promise<boolean> {
  const { payments } = await history.newest({ ...ANY, limit: LOOKED_AT }, LOOKED_AT);
  const order = payments.find(({ reference }) => reference !== undefined);
  return order !== undefined && order.client === undefined;
}
