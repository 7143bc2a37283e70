import { randomUUID } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const MONEY = { amount: '5.00', currency: 'EUR' };
const LINE = { amount: '1.25', currency: 'EUR' };
const PRESENT = { ...MONEY, returnUrl: 'https://shop.example/back' };
const PENDING = {
  status: 'pending',
  until: '2099-01-01T00:00:00Z',
  action: { url: 'https://bank.example/1' },
  ...MONEY,
};
const DECLINED = { status: 'declined', reason: 'ended' };

/** A reply: its status, the contract that it names, and its body. */
type Said = readonly [status: number, contract: string, body: object];
type Replies = Record<'charge' | 'lookUp' | 'end', Said> & { refund?: Said };

/** Rules P24 and P25: instances of an adapter may keep different contracts while a new version is rolled out. */
describeOneDeployment('an adapter', (deployment) => {
  /** A service whose adapter answers so; a test changes the replies. */
  async function servedWith(replies: Replies) {
    const processor = await startHttpServer((response, { method, url }) => {
      const asked =
        method === 'GET' ? 'lookUp' : url.endsWith('/ending') ? 'end' : url === '/refunds' ? 'refund' : 'charge';
      const [status, contract, body] = replies[asked] ?? [404, '2', {}];
      response.writeHead(status, { 'idempay-contract': contract }).end(JSON.stringify(body));
    });
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ PROCESSOR_URL: `http://127.0.0.1:${processor.port}` });
    const order = `order-${randomUUID()}`;
    const count = (end: string) =>
      processor.received.filter((request) => request.method === 'POST' && request.url.endsWith(end)).length;
    return {
      pay: (body: object = PRESENT) => sendJson(`${url}/api/payment?reference=${order}`, 'POST', body),
      cancel: () => sendJson(`${url}/api/payment-cancellation?reference=${order}`, 'POST', {}),
      refund: () => sendJson(`${url}/api/refund?reference=${order}&refund=line-2`, 'POST', LINE),
      refundsOf: (key: unknown) => ask(`${url}/api/payments/${key}/refunds`),
      find: (key: unknown) => ask(`${url}/api/payments/${key}`),
      refunds: () => count('/refunds'),
      charges: () => count('/charges'),
      endings: () => count('/ending'),
    };
  }

  it('of the second contract that says pending is unknown, and its look-up settles the payment as before', async () => {
    const replies: Replies = { charge: [202, '2', PENDING], lookUp: [200, '2', PENDING], end: [404, '2', {}] };
    const { pay, cancel, charges, endings } = await servedWith(replies);
    expectError(await pay(), 504);
    const cancelled = await cancel();
    expect([cancelled.status, endings()]).toEqual([409, 0]);
    replies.lookUp = [200, '2', { status: 'succeeded' }];
    await until('the outcome', DEADLINE_MS, async () => (await pay()).status === 200);
    expect(charges()).toBe(1);
  });

  it('of which an older instance answers about a pending payment does not settle it', async () => {
    const replies: Replies = {
      charge: [202, '3', PENDING],
      lookUp: [200, '2', { status: 'succeeded' }],
      end: [200, '3', DECLINED],
    };
    const { pay, charges } = await servedWith(replies);
    expect((await pay()).status).toBe(202);
    for (const lookUp of [
      [200, '2', { status: 'succeeded' }],
      [200, '2', DECLINED],
      [404, '2', {}],
    ] as const) {
      replies.lookUp = lookUp;
      const repeat = await pay(MONEY);
      expect(repeat.status).toBe(504);
    }
    replies.lookUp = [200, '3', { status: 'succeeded', ...MONEY }];
    await until('the outcome', DEADLINE_MS, async () => (await pay()).status === 200);
    expect(charges()).toBe(1);
  });

  it('of which an older instance is asked for an ending ends nothing, and the payment goes on', async () => {
    const replies: Replies = { charge: [202, '3', PENDING], lookUp: [200, '3', PENDING], end: [200, '2', DECLINED] };
    const { pay, cancel, charges, endings } = await servedWith(replies);
    expect((await pay()).status).toBe(202);
    expect([(await cancel()).status, endings()]).toEqual([409, 1]);
    expect((await pay()).status).toBe(202);
    replies.end = [200, '3', DECLINED];
    const ended = await cancel();
    expect([ended.status, ended.text]).toEqual([200, expect.stringContaining('Payment cancelled.')]);
    expect(charges()).toBe(1);
  });

  /** Rule P26. */
  it('of the second contract makes no refund: 501, and nothing is written', async () => {
    const succeeded = { status: 'succeeded', ...MONEY };
    const replies: Replies = { charge: [201, '2', succeeded], lookUp: [200, '2', succeeded], end: [404, '2', {}] };
    const { pay, refund, refunds, refundsOf, find } = await servedWith(replies);
    const { headers } = await pay(MONEY);
    const key = headers['idempotency-key'];
    for (const _repeat of [1, 2]) {
      const answer = await refund();
      expectError(answer, 501, /^The adapter of the processor does not know refunds \(contract 3\)/);
      expect(answer.headers['idempay-refund-key']).toBeUndefined();
    }
    expect((await refundsOf(key)).json()).toEqual([]);
    expect((await find(key)).json()).not.toHaveProperty('refunded');
    expect(refunds()).toBe(0);
    // The same name, and nothing is in its way: the adapter was replaced.
    replies.lookUp = [200, '3', succeeded];
    replies.refund = [201, '3', { status: 'succeeded', ...LINE }];
    expect((await refund()).status).toBe(200);
    expect(refunds()).toBe(1);
  });

  it('that does not say what it is makes no refund either: 503, and nothing is written', async () => {
    const succeeded = { status: 'succeeded', ...MONEY };
    const replies: Replies = { charge: [201, '2', succeeded], lookUp: [500, '2', {}], end: [404, '2', {}] };
    const { pay, refund, refunds, refundsOf } = await servedWith(replies);
    const { headers } = await pay(MONEY);
    expectError(await refund(), 503);
    expect((await refundsOf(headers['idempotency-key'])).json()).toEqual([]);
    expect(refunds()).toBe(0);
  });
});
