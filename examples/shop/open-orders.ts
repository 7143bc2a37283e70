import type { Idempay } from '@idempay/client';
import { endOrder, type Order, openOrders } from './orders.ts';
import { endPayment, type Standing, standingOf } from './payments.ts';

/** An order that is not paid after a day is given up. */
const ORDER_LIFE_MS = 86_400_000;

/**
 * The shop's own look at its open orders. A payer may close the tab before the shop sees the outcome, at the bank for example, and the
 * order is paid nevertheless. The look asks for payments that were begun, and begins none.
 */
export async function finishOrders(idempay: Idempay): Promise<void> {
  // A fault at one order must not keep the goods of the others.
  for (const order of await openOrders()) await finishOrder(idempay, order).catch((fault) => console.error(fault));
}

/** The state of the order at Idempay. If that is an end, the order ends here. */
export async function finishOrder(idempay: Idempay, order: Order): Promise<Standing> {
  const standing = await standingOf(idempay, order);
  const { attempt } = standing;
  const isGivenUp = attempt !== undefined && order.orderedAtMs + ORDER_LIFE_MS < Date.now();
  const { end } = isGivenUp ? await endPayment(idempay, order, { attempt }) : standing;
  // The goods of a paid order leave here. Looks, messages and servers find the end at the same time, and one of them is the first.
  if (end && (await endOrder(order, end))) console.log(`${order.id}: ${end}`);
  return standing;
}
