import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Idempay, type Payment } from '@idempay/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { SECRET, signedWebhook } from '../../testkit/client/signed-webhook.js';
import { sharePayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import type { Service } from '../../testkit/processes/service.js';
import { ownPage, startGateway } from '../../testkit/servers/gateway.js';
import { until } from '../../testkit/time/until.js';

const OTHER_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const OLD_MS = 301_000;
/** The service's answer to a wrong API key. */
const UNAUTHORIZED = {
  status: 401,
  headers: { idempay: '1', 'content-type': 'application/json', 'www-authenticate': 'Bearer' },
  text: JSON.stringify({
    status: 401,
    error: 'Unauthorized',
    message: 'Send an API key or a token: Authorization: Bearer <credential>.',
  }),
};
const PRICE = { amount: '24.90', currency: 'EUR', returnUrl: 'https://shop.example/orders' };

/** The shop looks at its orders by itself only after an hour, so only a message can finish one whose page is closed. */
describe('the shop of examples/, told by webhooks', () => {
  const environment = sharePayerEnvironment();
  let shop: Service;
  let payments: Idempay['payments'];
  /** The session of the browser that ordered. */
  let cookie = '';

  const file = () => join(environment.folder, 'orders.ndjson');
  const start = (secrets: Readonly<Record<string, string>>) =>
    environment.examples.start('shop', {
      PORT: '0',
      IDEMPAY_URL: environment.url,
      ORDERS: file(),
      LOOK_SECONDS: '3600',
      ...secrets,
    });
  beforeAll(async () => {
    // As a file has them that ends in a line end.
    shop = await start({ WEBHOOK_SECRETS: `${OTHER_SECRET}  ${SECRET}\n` });
    payments = new Idempay({ baseUrl: environment.url }).payments;
  });
  afterAll(() => shop?.kill());
  beforeEach(() => environment.behave({ pendingRate: 1 }));

  const post = (url: string, body: string) =>
    ask(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Cookie: cookie },
      body,
    });
  /** Orders, goes to the bank, decides there, and never opens the page of the order again. Resolves when Idempay has asked the bank. */
  async function orderAndLeave(decision: 'confirm' | 'refuse') {
    const ordered = await post(`${shop.url}/orders`, 'article=book&basket=book');
    [cookie = ''] = `${ordered.headers['set-cookie']}`.split(';');
    const sent = await post(`${shop.url}${ordered.headers.location}`, 'attempt=1');
    expect(sent.status).toBe(303);
    await post(`${sent.headers.location}/${decision}`, '');
    const reference = `${ordered.headers.location}`.replace('/orders/', 'order-');
    const payment = await until('the outcome', 20_000, async () => {
      await payments.pay(PRICE, { reference }).catch(() => undefined);
      const found = await payments.status({ reference });
      return found.state === 'PROCESSING' ? undefined : found;
    });
    return { reference, payment };
  }
  const messageOf = (payment: Payment, options?: Parameters<typeof signedWebhook>[2]) => {
    const state = payment.state.toLowerCase();
    const body = JSON.stringify({ type: `payment.${state}`, timestamp: payment.settledAt, data: payment });
    return signedWebhook(`${payment.idempotencyKey}.${state}`, body, options);
  };
  const send = async ({ headers, body }: ReturnType<typeof signedWebhook>, to = shop) => {
    const own = { 'content-type': 'application/json' };
    return (await ask(`${to.url}/webhooks/idempay`, { method: 'POST', headers: { ...own, ...headers }, body })).status;
  };
  const lines = async () => (await readFile(file(), 'utf8')).trim().split('\n');
  const endsOf = async (reference: string) =>
    (await lines())
      .map((line) => JSON.parse(line))
      .filter(({ id }) => reference === `order-${id}`)
      .flatMap(({ end }) => end ?? []);

  test('finishes an order once whose page is closed, however often the message comes', async () => {
    const { reference, payment } = await orderAndLeave('confirm');
    expect([payment.state, await endsOf(reference)]).toEqual(['COMPLETED', []]);
    for (const repeat of [1, 2, 3]) expect([repeat, await send(messageOf(payment))]).toEqual([repeat, 204]);
    expect(await endsOf(reference)).toEqual(['paid']);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('closes an order that was closed at Idempay', async () => {
    const { reference } = await orderAndLeave('refuse');
    await payments.cancel({ reference, attempt: 2 });
    expect(await send(messageOf(await payments.status({ reference })))).toBe(204);
    expect(await endsOf(reference)).toEqual(['closed']);
  });

  test('leaves an order open whose payer refused, and may try again', async () => {
    const { reference, payment } = await orderAndLeave('refuse');
    const before = await lines();
    expect(await send(messageOf(payment))).toBe(204);
    expect(await lines()).toEqual(before);
    const page = await ask(`${shop.url}/orders/${reference.replace('order-', '')}`, { headers: { Cookie: cookie } });
    expect(page.text).toContain('Try again');
  });

  test('changes nothing for a message that is forged, old, changed or parsed', async () => {
    const { reference, payment } = await orderAndLeave('confirm');
    const before = await lines();
    const forged = messageOf(payment, { secrets: [`whsec_${Buffer.alloc(32, 8).toString('base64')}`] });
    const old = messageOf(payment, { atMs: Date.now() - OLD_MS });
    const { headers, body } = messageOf(payment);
    for (const message of [forged, old, { headers, body: `${body} ` }, { headers, body: '' }])
      expect(await send(message)).toBe(400);
    expect(await lines()).toEqual(before);
    expect(await send({ headers, body })).toBe(204);
    expect(await endsOf(reference)).toEqual(['paid']);
  });

  test('changes nothing for an order that it does not know, or whose payment is that of another client', async () => {
    const { payment } = await orderAndLeave('refuse');
    const before = await lines();
    const others = [
      { ...payment, reference: 'order-of-nobody' },
      { ...payment, reference: 'invoice-7' },
      { ...payment, reference: null },
      // The same number in another shop, where it is paid: Idempay says that it is not paid here.
      { ...payment, state: 'COMPLETED' as const },
    ];
    for (const other of others) expect(await send(messageOf(other))).toBe(204);
    expect(await lines()).toEqual(before);
  });

  test('asks for the message again while Idempay does not answer', async () => {
    const { reference, payment } = await orderAndLeave('confirm');
    const message = messageOf(payment);
    await environment.killService();
    expect(await send(message)).toBe(503);
    await environment.startService();
    expect(await send(message)).toBe(204);
    expect(await endsOf(reference)).toEqual(['paid']);
  });

  /**
   * Bug: a 410 of a proxy was the shop's answer to Idempay, which stops the endpoint, and a 401 of Idempay was the shop's answer to its payer. No
   * line of the log said so.
   * Cause: Fastify answers with the status of an error that has one, and logs nothing by itself.
   * Fix: the shop logs a fault that is not of the request, and answers 503.
   */
  test('answers 503, and logs why, if a proxy or Idempay refuses the requests of the shop', async () => {
    const { reference, payment } = await orderAndLeave('confirm');
    const gateway = await startGateway(environment.url, async () => ownPage(410));
    const behind = await start({ WEBHOOK_SECRETS: SECRET, IDEMPAY_URL: gateway.url });
    expect(await send(messageOf(payment), behind)).toBe(503);
    const path = `/orders/${reference.replace('order-', '')}`;
    expect(await ask(`${behind.url}${path}`)).toMatchObject({ status: 503, text: expect.stringContaining('Reload') });
    expect(behind.output.join('\n')).toMatch(/UnexpectedAnswerError: .*410/);

    gateway.use(async () => UNAUTHORIZED);
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded', Cookie: cookie };
    const click = (attempt: string) =>
      ask(`${behind.url}${path}`, { method: 'POST', headers, body: `attempt=${attempt}` });
    expect((await click('1')).status).toBe(503);
    expect(behind.output.join('\n')).toContain('NotAuthorizedError');
    // The payer's own mistake stays one.
    expect((await click('none')).status).toBe(400);
    await behind.kill();
    await gateway.close();
    expect(await endsOf(reference)).toEqual([]);
  });

  test('has no such path without a secret', async () => {
    const without = await start({});
    const { payment } = await orderAndLeave('confirm');
    expect(await send(messageOf(payment), without)).toBe(404);
    await without.kill();
  });
});
