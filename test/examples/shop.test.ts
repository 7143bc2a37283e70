import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { openPayerEnvironment, type PayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import type { Service } from '../../testkit/processes/service.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { ownJson, startGateway } from '../../testkit/servers/gateway.js';
import { pause, until } from '../../testkit/time/until.js';

const FINAL_MS = 20_000;
const DAY_MS = 86_400_000;
/** Longer than the shop waits between two rounds. */
const ROUND_MS = 7_000;
const JSON_TYPE = { 'Content-Type': 'application/json' };

describe('the shop of examples/', { timeout: 60_000 }, () => {
  let environment: PayerEnvironment;
  let shop: Service;
  let chargedBefore: number;

  beforeAll(async () => {
    environment = await openPayerEnvironment();
    shop = await start();
  }, 60_000);
  afterAll(async () => {
    await shop?.kill();
    await environment?.close();
  });
  beforeEach(async () => {
    await environment.behave({ declineRate: 0, latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0 });
    chargedBefore = (await environment.charges()).length;
  });

  const start = () =>
    environment.examples.start('shop', { PORT: '0', IDEMPAY_URL: environment.url, ORDERS: environment.folder });
  const order = async () => {
    const body = JSON.stringify({ article: 'book' });
    const answer = await ask(`${shop.url}/orders`, { method: 'POST', headers: JSON_TYPE, body });
    expect(answer.status).toBe(201);
    return answer.json<{ id: string }>().id;
  };
  const payment = (id: string, attempt = 1, url = shop.url) =>
    ask(`${url}/orders/${id}/payments/${attempt}`, { method: 'PUT' });
  const newCharges = async () => (await environment.charges()).slice(chargedBefore);
  const stateOf = async (id: string) => (await ask(`${shop.url}/orders/${id}`)).json<{ state: string }>().state;

  test('charges an order once, however often it is clicked', async () => {
    const id = await order();
    await environment.behave({ latencyMs: 200 });
    const answers = await Promise.all(Array.from({ length: 8 }, () => payment(id)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.json()).toMatchObject({ state: 'paid', transactionId: expect.stringMatching(/^TXN\d+$/) });
    expect(await newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR' }]);
    expect(await stateOf(id)).toBe('paid');
  });

  test('charges an order once when two processes of the shop are asked', async () => {
    const other = await start();
    try {
      const id = await order();
      await environment.behave({ latencyMs: 200 });
      const answers = await Promise.all([payment(id), payment(id, 1, other.url), payment(id, 1, other.url)]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(await newCharges()).toHaveLength(1);
    } finally {
      await other.kill();
    }
  });

  test('takes another attempt after a decline, and no attempt beside one', async () => {
    const id = await order();
    expect((await payment(id, 2)).status).toBe(404);
    await environment.behave({ declineRate: 1 });
    expect((await payment(id)).status).toBe(402);
    expect((await payment(id)).status).toBe(402);
    await environment.behave({ declineRate: 0 });
    expect((await payment(id)).status).toBe(402);
    expect((await payment(id, 2)).status).toBe(200);
    expect((await newCharges()).filter(({ status }) => status === 'succeeded')).toHaveLength(1);
  });

  test.each([50, 300])('killed %d ms after a click, it goes on when it starts again', async (killAfterMs) => {
    const id = await order();
    await environment.behave({ latencyMs: 100, replyLatencyMs: 400 });
    const click = payment(id).catch(() => undefined);
    await pause(killAfterMs);
    await shop.kill();
    await click;
    shop = await start();
    const hasBegun = (await readdir(environment.folder)).includes(`${id}.key-1`);
    if (!hasBegun) await payment(id);
    await until('the order to be paid', FINAL_MS, async () => (await stateOf(id)) === 'paid');
    expect(await newCharges()).toHaveLength(1);
  });

  /**
   * The bug: an attempt whose key was refused was repeated every five seconds for ever, and the next attempt was 404. The cause: the shop
   * took every unknown outcome for one that is known later.
   */
  test('stops where a key is refused and may have been charged: it shows the key, and takes no other', async () => {
    const id = await order();
    const lostKey = newKeyOf(Date.now());
    await writeFile(join(environment.folder, `${id}.key-1`), lostKey);
    await until('the order to be set aside', FINAL_MS, async () => (await stateOf(id)) === 'unresolved');
    expect((await ask(`${shop.url}/orders/${id}`)).json()).toMatchObject({ key: lostKey });
    const [same, next] = [await payment(id), await payment(id, 2)];
    expect([same.status, same.json()]).toEqual([202, { state: 'unresolved', key: lostKey }]);
    expect([next.status, next.json()]).toEqual([409, expect.objectContaining({ state: 'unresolved', key: lostKey })]);
    expect(await newCharges()).toEqual([]);

    // What a person found at the processor.
    const outcome = JSON.stringify({ state: 'declined', reason: 'not at the processor' });
    await writeFile(join(environment.folder, `${id}.outcome-1`), outcome);
    expect((await payment(id, 2)).status).toBe(200);
    expect(await newCharges()).toHaveLength(1);
  });

  test('does not ask again for a key that is set aside, also after a restart', async () => {
    let asked = 0;
    const gateway = await startGateway(environment.url, ({ method }, forward) => {
      if (method === 'POST') asked += 1;
      return forward();
    });
    const folder = join(environment.folder, 'other-orders');
    const settings = { PORT: '0', IDEMPAY_URL: gateway.url, ORDERS: folder };
    let other = await environment.examples.start('shop', settings);
    const body = JSON.stringify({ article: 'book' });
    const { id } = (await ask(`${other.url}/orders`, { method: 'POST', headers: JSON_TYPE, body })).json<{
      id: string;
    }>();
    await writeFile(join(folder, `${id}.key-1`), newKeyOf(Date.now()));
    await until('the key to be asked for', FINAL_MS, () => asked > 0);
    await pause(ROUND_MS);
    expect(asked).toBe(1);
    await other.kill();
    other = await environment.examples.start('shop', settings);
    await pause(ROUND_MS);
    expect(asked).toBe(1);
    await other.kill();
    await gateway.close();
  });

  test('takes another key where the service is certain that nothing was charged, and charges once', async () => {
    const id = await order();
    await writeFile(join(environment.folder, `${id}.key-1`), newKeyOf(Date.now() - 2 * DAY_MS));
    const answers = await Promise.all([payment(id), payment(id), payment(id)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await newCharges()).toHaveLength(1);
  });

  test('charges once behind a gateway that answers by itself after it forwarded the payment', async () => {
    const statuses = [400, 402, 403];
    const gateway = await startGateway(environment.url, async ({ method }, forward) => {
      const answer = await forward();
      const status = method === 'POST' ? statuses.shift() : undefined;
      return status === undefined ? answer : ownJson(status);
    });
    const settings = { PORT: '0', IDEMPAY_URL: gateway.url, ORDERS: environment.folder };
    const other = await environment.examples.start('shop', settings);
    const id = await order();
    expect((await payment(id, 1, other.url)).status).toBe(200);
    expect(statuses).toEqual([]);
    expect(await newCharges()).toHaveLength(1);
    await other.kill();
    await gateway.close();
  });

  test('refuses an article that it does not have', async () => {
    const body = JSON.stringify({ article: 'toString' });
    expect((await ask(`${shop.url}/orders`, { method: 'POST', headers: JSON_TYPE, body })).status).toBe(400);
  });
});
