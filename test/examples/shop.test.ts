import { join } from 'node:path';
import { Idempay } from '@idempay/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { sharePayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import type { Service } from '../../testkit/processes/service.js';
import { ownJson, ownPage, startGateway } from '../../testkit/servers/gateway.js';
import { pause, until } from '../../testkit/time/until.js';

const FORM_TYPE = { 'Content-Type': 'application/x-www-form-urlencoded' };
const PAID = /Paid: TXN\d+/;
/** Long enough to do something else in the middle of a payment. */
const SLOW = { latencyMs: 300, replyLatencyMs: 300 };

describe('the shop of examples/, with two servers', () => {
  const environment = sharePayerEnvironment();
  let shop: Service;
  let other: Service;

  beforeAll(async () => {
    [shop, other] = await Promise.all([start(), start()]);
  });
  afterAll(async () => {
    await shop?.kill();
    await other?.kill();
  });

  const start = (url = environment.url) =>
    environment.examples.start('shop', {
      PORT: '0',
      IDEMPAY_URL: url,
      ORDERS: join(environment.folder, 'data', 'orders.ndjson'),
    });
  const post = (url: string, body: string) => ask(url, { method: 'POST', headers: FORM_TYPE, body });
  /** The path of its page. */
  const order = async () => `${(await post(`${shop.url}/orders`, 'article=book')).headers.location}`;
  /** The page that a browser shows then. */
  async function click(path: string, attempt: number | string = 1, server = shop) {
    const answer = await post(`${server.url}${path}`, `attempt=${attempt}`);
    return answer.status === 303 ? ask(`${server.url}${answer.headers.location}`) : answer;
  }
  /** A start may take longer than a click waits: then the page says to click again. */
  const clickedAgain = async (path: string, answer: Answer) =>
    answer.text.includes('Click again') ? click(path) : answer;
  const page = async (path: string, server = shop) => (await ask(`${server.url}${path}`)).text;
  const button = (html: string) => /value="(\d+)">([^<]+)</.exec(html)?.slice(1);
  const newCharge = () => until('the charge', 10_000, async () => (await environment.newCharges()).length > 0);

  test('charges an order once, however often it is clicked, at whichever server', async () => {
    const path = await order();
    expect(button(await page(path, other))).toEqual(['1', 'Pay']);
    await environment.behave(SLOW);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) => click(path, 1, at % 2 === 0 ? shop : other)),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${PAID.exec(text)}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 200, text: expect.stringMatching(PAID) });
    expect(await environment.newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR', status: 'succeeded' }]);
    expect(await page(path, other)).toMatch(PAID);
    expect(button(await page(path))).toBeUndefined();
  });

  test.each([50, 400])('killed %d ms after a click, it is clicked again at the other server', async (killAfterMs) => {
    const path = await order();
    await environment.behave(SLOW);
    const first = click(path).catch(() => undefined);
    await pause(killAfterMs);
    await shop.kill();
    await first;
    expect((await click(path, 1, other)).text).toMatch(PAID);
    shop = await start();
    expect((await click(path)).text).toMatch(PAID);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('goes on where Idempay is killed in the middle of the payment', async () => {
    const path = await order();
    await environment.behave(SLOW);
    const clicks = [click(path), click(path, 1, other)];
    await newCharge();
    await environment.killService();
    await environment.startService();
    for (const answer of await Promise.all(clicks)) expect((await clickedAgain(path, answer)).text).toMatch(PAID);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('says that payments do not answer while Idempay is down, and a click waits for it', async () => {
    const path = await order();
    await environment.killService();
    const opened = await ask(`${shop.url}${path}`);
    expect([opened.status, button(opened.text)]).toEqual([503, undefined]);
    const clicked = click(path);
    await environment.startService();
    expect((await clickedAgain(path, await clicked)).text).toMatch(PAID);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('charges again after a decline only where the payer tries again', async () => {
    const path = await order();
    await environment.behave({ declineRate: 1 });
    const declined = await click(path);
    expect([declined.status, button(declined.text)]).toEqual([402, ['2', 'Try again']]);
    await environment.behave({ declineRate: 0 });
    // Clicks of pages from before, and a reload.
    for (const server of [shop, other]) expect((await click(path, 1, server)).status).toBe(402);
    expect(button(await page(path))).toEqual(['2', 'Try again']);
    expect(await environment.newCharges()).toHaveLength(1);

    const again = await Promise.all([click(path, 2), click(path, 2, other), click(path, 2)]);
    for (const answer of again) expect(answer.text).toMatch(PAID);
    for (const attempt of [1, 2, 3]) expect((await click(path, attempt)).text).toMatch(PAID);
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });

  test('charges nothing for an attempt whose turn it is not, and for one that is no number', async () => {
    const path = await order();
    expect(button((await click(path, 5)).text)).toEqual(['1', 'Pay']);
    for (const attempt of ['', '0', 'second', '100']) expect((await click(path, attempt)).status).toBe(400);
    expect((await post(`${shop.url}/orders`, 'article=toString')).status).toBe(400);
    expect((await click('/orders/of-nobody')).status).toBe(404);
    expect(await environment.newCharges()).toEqual([]);
  });

  test('never charges an order that was closed', async () => {
    const path = await order();
    const reference = path.replace('/orders/', 'order-');
    await new Idempay({ baseUrl: environment.url }).payments.cancel({ reference });
    for (const shown of [(await click(path)).text, await page(path)]) expect(shown).toContain('closed');
    expect(button(await page(path))).toBeUndefined();
    expect(await environment.newCharges()).toEqual([]);
  });

  test('charges once behind a gateway that answers by itself after it forwarded the payment', async () => {
    const statuses = [400, 402, 403];
    const gateway = await startGateway(environment.url, async ({ method }, forward) => {
      const answer = await forward();
      const status = method === 'POST' ? statuses.shift() : undefined;
      return status === undefined ? answer : ownJson(status);
    });
    const behind = await start(gateway.url);
    expect((await click(await order(), 1, behind)).text).toMatch(PAID);
    expect(statuses).toEqual([]);
    expect(await environment.newCharges()).toHaveLength(1);
    await behind.kill();
    await gateway.close();
  });

  test('offers the same button again where no answer is clear, and that click is not charged again', async () => {
    const gateway = await startGateway(environment.url, async ({ method }, forward) => {
      const answer = await forward();
      return method === 'POST' ? ownPage(502) : answer;
    });
    const behind = await start(gateway.url);
    const path = await order();
    const unknown = await click(path, 1, behind);
    expect([unknown.status, button(unknown.text)]).toEqual([202, ['1', 'Pay']]);
    expect((await click(path)).text).toMatch(PAID);
    expect(await environment.newCharges()).toHaveLength(1);
    await behind.kill();
    await gateway.close();
  });
});
