import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeadKeyError, Idempay } from '@idempay/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { openPayerEnvironment, type PayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import type { Service } from '../../testkit/processes/service.js';
import { ROOT } from '../../testkit/programs.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { type Gateway, startGateway } from '../../testkit/servers/gateway.js';

const DAY_MS = 86_400_000;
const PRICE = { amount: '24.90', currency: 'EUR' };

/** What the page does with the client, without a browser: test/browser/browser-checkout does it in one. */
describe('the checkout of examples/, asked by the client', { timeout: 60_000 }, () => {
  let environment: PayerEnvironment;
  let gateway: Gateway;
  let shop: Service;
  let chargedBefore: number;

  beforeAll(async () => {
    environment = await openPayerEnvironment();
    gateway = await startGateway(environment.url);
    shop = await environment.examples.start('browser-checkout', {
      PORT: '0',
      IDEMPAY_URL: gateway.url,
      ORDERS: environment.folder,
      PAGE: join(ROOT, 'examples', 'browser-checkout', 'page'),
    });
  }, 60_000);
  afterAll(async () => {
    await shop?.kill();
    await gateway?.close();
    await environment?.close();
  });
  beforeEach(async () => {
    gateway.use((_request, forward) => forward());
    chargedBefore = (await environment.charges()).length;
  });

  async function order(): Promise<string> {
    const { headers } = await ask(`${shop.url}/`);
    return `${headers.location}`.split('/').at(-1) ?? '';
  }
  const pay = (id: string) => new Idempay({ baseUrl: `${shop.url}/orders/${id}/payments/1` }).payments.pay(PRICE);
  const read = async (id: string) => (await ask(`${shop.url}/orders/${id}`)).json<Record<string, unknown>>();
  const newCharges = async () => (await environment.charges()).slice(chargedBefore);
  const keep = (id: string, key: string) => writeFile(join(environment.folder, `${id}.key-1`), key);

  test('pays once, whoever asks, and shows what was paid', async () => {
    const id = await order();
    const [first, second] = await Promise.all([pay(id), pay(id)]);
    expect(first).toMatchObject({ transactionId: second.transactionId, ...PRICE });
    expect(await read(id)).toMatchObject({ transactionId: first.transactionId });
    expect(await newCharges()).toHaveLength(1);
  });

  /** The bug: the shop judged by the status and a text that anybody could have written, and let the payer begin another attempt. */
  test('believes no decline and no success of a gateway', async () => {
    const id = await order();
    const own = [
      { status: 402, error: 'Payment Required', message: 'Payment declined: by the gateway' },
      { status: 200, text: 'See TXN17 in our log' },
    ];
    gateway.use(async ({ method }, forward) => {
      const answer = await forward();
      const body = method === 'POST' ? own.shift() : undefined;
      if (body === undefined) return answer;
      return { status: body.status, headers: { 'content-type': 'application/json' }, text: JSON.stringify(body) };
    });
    const { transactionId } = await pay(id);
    expect(own).toEqual([]);
    expect((await newCharges()).map((charge) => charge.transactionId)).toEqual([transactionId]);
  });

  test('gives a dead key out no more, and takes no other: the order shows that a person looks for the payment', async () => {
    const id = await order();
    await keep(id, newKeyOf(Date.now()));
    for (let click = 0; click < 2; click += 1) await expect(pay(id)).rejects.toBeInstanceOf(DeadKeyError);
    expect(await read(id)).toMatchObject({ isUnresolved: true, transactionId: null });
    expect(await newCharges()).toEqual([]);
  });

  test('takes another key where the service is certain that nothing was charged, and charges once', async () => {
    const id = await order();
    await keep(id, newKeyOf(Date.now() - 2 * DAY_MS));
    await Promise.all([pay(id), pay(id)]);
    expect(await newCharges()).toHaveLength(1);
  });
});
