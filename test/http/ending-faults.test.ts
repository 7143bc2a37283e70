import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { type Deployment, describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { changeStored, type StoredChange } from '../../testkit/protocol/stored-rows.js';
import { type Asked, move, noRecord, serveAdapter, succeeded } from '../../testkit/servers/adapters.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PRESENT = { ...MONEY, returnUrl: 'https://shop.example/orders/17/paid' };
const OTHER_MONEY = { ...PRESENT, amount: '9.00' };

const newOrder = () => `reference=order-${randomUUID()}`;
const keyOf = (answer: Answer) => String(answer.headers['idempotency-key']);
const payOrder = (url: string, order: string, body: object = PRESENT) =>
  sendJson(`${url}/api/payment?${order}`, 'POST', body);
const cancelOrder = (url: string, query: string) => ask(`${url}/api/payment-cancellation?${query}`, { method: 'POST' });
const expectNotSent = (answer: Answer) => expectError(answer, 503, /so nothing was charged yet/);
const expectCancelled = (answer: Answer) => expect([answer.status, answer.text]).toEqual([200, '"Payment cancelled."']);

async function openStores(deployment: Deployment): Promise<Stores> {
  const stores = await deployment.open();
  onTestFinished(() => stores.close());
  return stores;
}

/** Rule P25. */
describeDeployments('the end of a payment that was never sent', (deployment) => {
  test.each(['1', '3'])('needs no processor, whatever it knew before: contract %s', async (contract) => {
    const books = { moved: [] as { reference: string; amount: unknown }[] };
    const asked: string[] = [];
    const headers = { 'idempay-contract': contract === '1' ? '' : contract };
    const charge = async (charged: Asked) => ({ ...succeeded(move(books, charged)), headers });
    const lookUp = (question: Asked) => {
      asked.push(question.reference);
      return { ...noRecord(), headers };
    };
    const adapter = await serveAdapter({ charge, lookUp });
    const stores = await openStores(deployment);
    const { url } = await stores.serve({ PROCESSOR_URL: adapter.url });
    expect((await payOrder(url, newOrder(), MONEY)).status).toBe(200);
    await adapter.close();

    const [order, other] = [newOrder(), newOrder()];
    const first = await payOrder(url, order, MONEY);
    expectNotSent(first);
    expectNotSent(await payOrder(url, other, MONEY));
    expectCancelled(await cancelOrder(url, order));
    expectCancelled(await cancelOrder(url, `${other}&only=attempt`));
    expect(await shownPaymentOf(url, keyOf(first))).toMatchObject({
      state: 'DECLINED',
      ending: 'order',
      reason: 'cancelled before it was sent',
    });
    expectError(await payOrder(url, `${order}&attempt=2`, MONEY), 410);
    expectNotSent(await payOrder(url, `${other}&attempt=2`, MONEY));
    expect(books.moved).toHaveLength(1);
    expect(asked).not.toContain(keyOf(first));
  });
});

/** The next start finds a database that lacks these rows, and the one after it has nothing to wait for. */
function lossOf(keys: readonly string[]): StoredChange {
  const condition = `WHERE key IN ('${keys.join("', '")}')`;
  return {
    embedded: `DELETE FROM payments ${condition}; DELETE FROM idempotency_keys; UPDATE deployment SET is_backup = 1`,
    distributed: `DELETE FROM idempay.payments ${condition}; UPDATE idempay.deployment SET timeline = 'FFFFFFFF'`,
  };
}

const LONG_AGO: StoredChange = {
  embedded: 'UPDATE deployment SET adopted_at = 1',
  distributed: 'UPDATE idempay.deployment SET adopted_at = to_timestamp(1)',
};

describeDeployments('the end of a pending payment whose row was lost', (deployment) => {
  test('is one with what the processor says of it, and closes the order', async () => {
    const [stores, processor] = await Promise.all([
      openStores(deployment),
      serveReferenceProcessor({ behaviour: { pendingRate: 1 } }),
    ]);
    onTestFinished(() => processor.close());
    const serve = () => stores.serve({ PROCESSOR_URL: processor.url });
    const before = await serve();
    const [order, attempt, other] = [newOrder(), newOrder(), newOrder()];
    const keys: string[] = [];
    for (const each of [order, attempt, other]) keys.push(keyOf(await payOrder(before.url, each)));
    await payOrder(before.url, newOrder());
    await before.stop();
    await changeStored(stores, lossOf(keys));
    await (await serve()).stop();
    await changeStored(stores, LONG_AGO);

    const { url } = await serve();
    for (const _ of [1, 2]) expectCancelled(await cancelOrder(url, order));
    for (const _ of [1, 2]) expectCancelled(await cancelOrder(url, `${attempt}&only=attempt`));
    expectError(await payOrder(url, other, OTHER_MONEY), 422);
    expectCancelled(await cancelOrder(url, other));
    for (const [n, key] of keys.entries()) {
      const ending = n === 1 ? 'attempt' : 'order';
      expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'DECLINED', ending, ...MONEY });
      await ask(`${processor.url}/pending/${key}/confirm`, { method: 'POST' });
      expect((await processor.chargesOf(key)).filter(({ status }) => status === 'succeeded')).toEqual([]);
    }
    expectError(await payOrder(url, `${order}&attempt=2`), 410);
    expect((await payOrder(url, `${attempt}&attempt=2`)).status).toBe(202);
  });
});
