import { expect, it } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const LINE = { amount: '12.50', currency: 'USD' };

/** Two keys of one client: its checkout's, and the one of its back office. */
const checkout = credentialOf('shop', ['payments:write', 'payments:read']);
const shop = credentialOf('shop', ['payments:write', 'payments:read', 'refunds:write']);
const rival = credentialOf('rival', ['payments:write', 'payments:read', 'refunds:write']);
const operator = credentialOf('operator', ['operations', 'refunds:write']);
const watcher = credentialOf('watcher', ['operations']);

/** Rule P26: a client refunds its own payments, with a scope of its own. */
describeDeployments('with AUTH=required', async (deployment) => {
  const keys = await requireKeys(shop, rival, operator, watcher);
  const shared = shareProcessedService(deployment, {}, keys.environment);
  let orders = 0;

  async function givenPaid(client = shop) {
    orders += 1;
    const order = `order-${orders}`;
    const paid = await sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY, client.headers);
    expect(paid.status, paid.text).toBe(200);
    return { order, key: String(paid.headers['idempotency-key']) };
  }
  const refund = (query: string, { headers }: typeof shop, key?: string): Promise<Answer> =>
    sendJson(`${shared().url}/api/refund?${query}`, 'POST', LINE, {
      ...headers,
      ...(key && { 'Idempotency-Key': key }),
    });
  const refundsOf = async (key: string) =>
    (await ask(`${shared().url}/api/payments/${key}/refunds`, watcher)).json<Record<string, unknown>[]>();

  it('the key of a checkout cannot refund, and nor can that of an operator without the scope', async () => {
    const { order, key } = await givenPaid();
    await keys.write(checkout, rival, operator, watcher);
    const pay = () => sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY, checkout.headers);
    await expect.poll(async () => (await pay()).status).toBe(200);
    for (const client of [checkout, watcher]) {
      const answer = await refund('refund=line-2', client, key);
      expectError(answer, 403, 'Your API key or token lacks the scope refunds:write.');
      expect(answer.headers['www-authenticate']).toContain('scope="refunds:write"');
    }
    await keys.write(shop, rival, operator, watcher);
    await expect.poll(async () => (await refund('refund=line-2', shop, key)).status).toBe(200);
    expect(await refundsOf(key)).toHaveLength(1);
  });

  it('the payment of another client is unknown, and so are its refunds', async () => {
    const { order, key } = await givenPaid();
    const unknown = 'No payment found that could be refunded. Nothing was given back.';
    for (const _again of [1, 2]) {
      expectError(await refund('refund=line-2', rival, key), 404, unknown);
      expectError(await refund(`reference=${order}&refund=line-2`, rival), 404, unknown);
      expect((await refund('refund=line-2', shop, key)).status).toBe(200);
    }
    expectError(await ask(`${shared().url}/api/payments/${key}/refunds`, rival), 404);
    expect(await refundsOf(key)).toMatchObject([{ state: 'COMPLETED', client: 'key:shop' }]);
    expect(await shared().processor.refundsOf(key)).toHaveLength(1);
  });

  it('its client finds it by the reference, another client only its own of the same reference, and an operator both', async () => {
    const { order, key } = await givenPaid();
    const rivals = await sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY, rival.headers);
    const paid = [key, String(rivals.headers['idempotency-key'])];
    for (const client of [shop, rival])
      expect((await refund(`reference=${order}&refund=line-2`, client)).status).toBe(200);
    const listed = async ({ headers }: typeof shop, kind: string) => {
      const answer = await ask(`${shared().url}/api/payments?reference=${order}&kind=${kind}`, { headers });
      const records = answer.json<{ idempotencyKey: string; refund?: { payment: string }; client?: string }[]>();
      return records.map(({ idempotencyKey, refund: of, client }) => [of?.payment ?? idempotencyKey, client]);
    };
    for (const [at, client] of [shop, rival].entries()) {
      expect(await listed(client, 'refund')).toEqual([[paid[at], undefined]]);
      expect(await listed(client, 'all')).toEqual([
        [paid[at], undefined],
        [paid[at], undefined],
      ]);
    }
    const ofBoth = [
      [paid[1], 'key:rival'],
      [paid[0], 'key:shop'],
    ];
    expect(await listed(watcher, 'refund')).toEqual(ofBoth);
    expect(await listed(watcher, 'all')).toEqual([...ofBoth, ...ofBoth]);
  });

  it('an operator names the client of a reference, and the refund is one of that client', async () => {
    const { order, key } = await givenPaid();
    await sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY, rival.headers);
    expectError(await refund(`reference=${order}&refund=line-2`, operator), 400, /^'client' must say/);
    expect((await refund(`reference=${order}&refund=line-2&client=key:shop`, operator)).status).toBe(200);
    const repeat = await refund('refund=line-2', shop, key);
    expect([repeat.status, repeat.headers['idempotent-replayed']]).toEqual([200, 'true']);
    expect(await refundsOf(key)).toMatchObject([{ client: 'key:shop' }]);
  });
});
