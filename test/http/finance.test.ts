import { expect, it } from 'vitest';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const shop = credentialOf('shop', ['payments:write', 'payments:read', 'refunds:write']);
const rival = credentialOf('rival', ['payments:write']);
const finance = credentialOf('finance', ['payments:read:all']);
/** A shop that also reads everything: it still changes its own payments only. */
const both = credentialOf('both', ['payments:write', 'payments:read', 'refunds:write', 'payments:read:all']);

/** Rule A4: `payments:read:all` reads every payment, and changes none. */
describeDeployments('payments:read:all', async (deployment) => {
  const { environment } = await requireKeys(shop, rival, finance, both);
  const shared = shareProcessedService(deployment, {}, environment);
  let orders = 0;

  async function givenPaid(client: Credential) {
    orders += 1;
    const order = `order-${orders}`;
    const paid = await sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY, client.headers);
    expect(paid.status, paid.text).toBe(200);
    return { order, key: String(paid.headers['idempotency-key']) };
  }
  const read = (path: string, client = finance) => ask(`${shared().url}${path}`, client);
  const send = (path: string, client: Credential, body: object, key?: string) =>
    sendJson(`${shared().url}${path}`, 'POST', body, { ...client.headers, ...(key && { 'Idempotency-Key': key }) });

  it('reads the payments of all clients, with their client, as a list, a record, refunds and an export', async () => {
    const [one, other] = [await givenPaid(shop), await givenPaid(rival)];
    expect((await send('/api/refund?refund=line-1', shop, MONEY, one.key)).status).toBe(200);
    const shown = (key: string, client: string) => expect.objectContaining({ idempotencyKey: key, client });
    const all = [shown(one.key, 'key:shop'), shown(other.key, 'key:rival')];

    expect((await read('/api/payments')).json()).toEqual(expect.arrayContaining(all));
    for (const { order, key } of [one, other]) {
      expect((await read(`/api/payments?reference=${order}`)).json()).toMatchObject([{ idempotencyKey: key }]);
      expect((await read(`/api/payments/${key}`)).json()).toMatchObject({ idempotencyKey: key, state: 'COMPLETED' });
    }
    expect((await read(`/api/payments/${one.key}/refunds`)).json()).toMatchObject([{ client: 'key:shop' }]);
    const day = new Date().toISOString().slice(0, 10);
    const exported = (await read(`/api/payments/export?day=${day}&kind=all`)).text.trim().split('\n');
    expect(exported.map((line) => JSON.parse(line))).toEqual(expect.arrayContaining(all));
    expect((await read(`/api/payments?content=x&from=${day}`)).status).toBe(200);
  });

  it('reads the timeline of each payment, with the client that asked for a change', async () => {
    const cancellation = await send('/api/payment-cancellation?reference=given-up', shop, {});
    const cancelled = String(cancellation.headers['idempotency-key']);
    expect((await read(`/api/payments/${cancelled}/timeline`)).json()).toMatchObject({
      events: [{ event: 'cancelled', by: 'key:shop' }],
    });
    const { key } = await givenPaid(shop);
    const timeline = await read(`/api/payments/${key}/timeline`, both);
    expect(timeline.json()).toMatchObject({ idempotencyKey: key, state: 'COMPLETED' });
  });

  it('does nothing else', async () => {
    const { order, key } = await givenPaid(shop);
    const paths = [
      `/api/payments/${key}/processor-answer`,
      '/api/payments/activity',
      `/api/payment-status?reference=${order}&client=key:shop`,
      '/api/transactions',
      '/api/health/redis/stats',
      '/api/live',
      '/api/server-generated/generate-key',
    ];
    for (const path of paths) expectError(await read(path), 403);
    const order2 = `reference=${order}&client=key:shop`;
    expectError(await send(`/api/payment?reference=order-of-finance`, finance, MONEY), 403);
    expectError(await send(`/api/payment-cancellation?${order2}`, finance, {}), 403);
    expectError(await send(`/api/refund?${order2}&refund=line-1`, finance, MONEY), 403);
    const verdict = { outcome: 'declined', reason: 'seen' };
    expectError(await send(`/api/payments/${key}/resolution`, finance, verdict), 403);
  });

  it('beside scopes that write gives no right over the payments of other clients', async () => {
    const { order, key } = await givenPaid(shop);
    expectError(await send('/api/refund?refund=line-1', both, MONEY, key), 404);
    expectError(await send(`/api/refund?reference=${order}&refund=line-1&client=key:shop`, both, MONEY), 400);
    expectError(await send('/api/payment-cancellation', both, {}, key), 400);
    expectError(await send(`/api/payment-cancellation?reference=${order}&client=key:shop`, both, {}), 400);
    expect(await shared().processor.refundsOf(key)).toEqual([]);
    expect((await read(`/api/payments/${key}`, both)).json()).toMatchObject({ state: 'COMPLETED', client: 'key:shop' });
  });
});
