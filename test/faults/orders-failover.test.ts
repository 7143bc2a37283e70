import { expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { chargedOf, type Order, type OrderEnd, payOrder, settleOrder } from '../../testkit/client/orders.js';
import type { ShownPayment } from '../../testkit/client/payment-records.js';
import { ATTEMPT_ENDS_MS, openPostgresFailover } from '../../testkit/deployments/postgres-failover.js';
import { pause, until } from '../../testkit/time/until.js';

const PAYERS = 16;
const ATTEMPTS = 3;
/** The longest part of a payment, so that the end of the primary finds most of them in it. */
const CHARGE_MS = 300;
/** So long orders are paid while the standby receives everything, and as long while it lags. */
const PHASE_MS = 2_000;
const DEADLINE_MS = 60_000;
const RETRIED_WITHIN_MS = 40_000;

/**
 * An asynchronous standby that lacks the last two seconds is promoted under load. Each order is paid by two callers that keep nothing. The
 * processor decides what was charged: without deduplication it charges whatever arrives.
 */
test.each([true, false])('a failover that loses rows charges no order twice, deduplication %s', async (deduplicate) => {
  const failover = await openPostgresFailover({ latencyMs: CHARGE_MS, declineRate: 0.2, deduplicate });
  const urls = failover.services.map(({ url }) => url);

  const ends = new Map<Order, OrderEnd[]>();
  let isPaying = true;
  let goesOn = true;
  let count = 0;
  const newOrder = (): Order => {
    count += 1;
    return { reference: `order-${count}`, amount: `${count}.00`, currency: 'EUR' };
  };
  const settle = async (order: Order) => {
    const callers = ([1, 2] as const).map((requests) => {
      const from = requests === 1 ? urls : urls.toReversed();
      return settleOrder(from, order, { requests, attempts: ATTEMPTS, goesOn: () => goesOn });
    });
    ends.set(order, await Promise.all(callers));
  };
  const payers = Array.from({ length: PAYERS }, async () => {
    while (isPaying) await settle(newOrder());
  });
  await pause(PHASE_MS);
  failover.cutOffStandby();
  await pause(PHASE_MS);
  await failover.stopPrimary();
  await failover.promoteStandby();

  const fresh = newOrder();
  await until('a new order to be paid after the failover', DEADLINE_MS, async () => {
    const { status } = await payOrder(urls[0] as string, fresh).catch(() => ({ status: 0 }));
    return status === 200 || status === 402;
  });
  isPaying = false;
  // An outcome that only an operator can decide goes on being unknown.
  await pause(2 * ATTEMPT_ENDS_MS);
  if (deduplicate) await Promise.all(payers);
  goesOn = false;
  await Promise.all(payers);

  // A caller that was told is not the last one: each order is asked for again, by somebody who knows nothing of it.
  goesOn = true;
  const giveUp = setTimeout(() => {
    goesOn = false;
  }, RETRIED_WITHIN_MS);
  const again = ends.keys();
  const retry = async () => {
    for (const order of again) {
      const end = await settleOrder(urls, order, { requests: 1, attempts: ATTEMPTS, goesOn: () => goesOn });
      ends.get(order)?.push(end);
    }
  };
  await Promise.all(Array.from({ length: PAYERS }, retry));
  clearTimeout(giveUp);
  const charges = await failover.charges();
  const charged = chargedOf(charges);
  const chargedAs = new Map(charges.map(({ reference, transactionId }) => [reference, transactionId]));
  const seen = { orders: ends.size, completed: 0, declined: 0, unknown: 0, foundAgain: 0 };
  for (const [order, each] of ends) {
    const records = (await ask(`${urls[0]}/api/payments?reference=${order.reference}`)).json<ShownPayment[]>();
    const keys = new Set([
      ...records.map(({ idempotencyKey }) => idempotencyKey),
      ...each.flatMap(({ key }) => key ?? []),
    ]);
    const moved = [...keys].map((key) => charged.get(key) ?? 0).reduce((sum, times) => sum + times, 0);
    const evidence = JSON.stringify({ order, records, each });
    expect(moved, evidence).toBeLessThanOrEqual(1);
    const told = each.filter(({ status }) => status === 200);
    expect(told.length > 0 && moved === 0, `told as paid and not charged: ${evidence}`).toBe(false);
    const isFoundAgain = ({ idempotencyKey: key, transactionId }: ShownPayment) =>
      chargedAs.has(key) && chargedAs.get(key) !== transactionId;
    if (records.some(isFoundAgain)) seen.foundAgain += 1;
    if (records.some(({ state }) => state === 'PROCESSING')) seen.unknown += 1;
    else seen[moved === 1 ? 'completed' : 'declined'] += 1;
  }
  expect([...charged.values()].filter((times) => times > 1)).toEqual([]);
  console.log(JSON.stringify({ deduplicate, ...seen }));
  expect(seen.completed).toBeGreaterThan(PAYERS);
  if (deduplicate) expect(seen.unknown).toBe(0);
  // Otherwise no row was lost whose charge was found again, and the test shows nothing.
  expect(seen.foundAgain).toBeGreaterThan(0);
});
