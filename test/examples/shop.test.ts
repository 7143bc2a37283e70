import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Idempay } from '@idempay/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
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
  /** The session of the browser that ordered. */
  let cookie = '';

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
      ORDERS: ordersFile(),
      LOOK_SECONDS: '1',
    });
  const ordersFile = () => join(environment.folder, 'data', 'orders.ndjson');
  const post = (url: string, body: string) =>
    ask(url, { method: 'POST', headers: { ...FORM_TYPE, Cookie: cookie }, body });
  const open = (url: string, session = cookie) => ask(url, { headers: { Cookie: session } });
  /** The path of its page. */
  async function order() {
    const { headers } = await post(`${shop.url}/orders`, 'basket=book');
    [cookie = ''] = `${headers['set-cookie']}`.split(';');
    return `${headers.location}`;
  }
  /** The page that a browser shows then. */
  async function click(path: string, attempt: number | string = 1, server = shop) {
    const answer = await post(`${server.url}${path}`, `attempt=${attempt}`);
    return answer.status === 303 ? open(`${new URL(`${answer.headers.location}`, server.url)}`) : answer;
  }
  /** A start may take longer than a click waits: then the page says to click again. */
  const clickedAgain = async (path: string, answer: Answer) =>
    answer.text.includes('Click again') ? click(path) : answer;
  const page = async (path: string, server = shop) => (await open(`${server.url}${path}`)).text;
  const button = (html: string) => /value="(\d+)">([^<]+)</.exec(html)?.slice(1);
  /** The last line of this order. Both servers write the ends of others at any time. */
  async function savedOrder(path: string) {
    const lines = (await readFile(ordersFile(), 'utf8')).trim().split('\n');
    return lines.map((line) => JSON.parse(line)).findLast(({ id }) => path === `/orders/${id}`);
  }
  const changeOrder = async (path: string, change: object) =>
    appendFile(ordersFile(), `${JSON.stringify({ ...(await savedOrder(path)), ...change })}\n`);
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
    const opened = await open(`${shop.url}${path}`);
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
    expect((await post(`${shop.url}/orders`, 'basket=toString')).status).toBe(400);
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

  /**
   * Bug: an order that had ended was charged a second time if Idempay no longer had its payment.
   * Cause: only Idempay was asked, and an order without a payment there had the button "Pay".
   * Fix: the end that the shop wrote down counts.
   */
  test('charges nothing for an order that has ended, although Idempay has no payment of it', async () => {
    const path = await order();
    await changeOrder(path, { end: 'paid' });
    for (const { status, text } of [await click(path), await click(path, 1, other), await open(`${shop.url}${path}`)])
      expect([status, /Paid\./.test(text), button(text)]).toEqual([200, true, undefined]);
    expect(await environment.newCharges()).toEqual([]);
  });

  /**
   * Bug: the form of another site gave the payer a new session, so the payer could not pay the orders of before.
   * Cause: the browser sends no Lax cookie with it, and the shop made a session for a browser without one.
   * Fix: such a form gets 403, and no cookie.
   */
  test('takes no form of another site', async () => {
    const path = await order();
    for (const each of ['/orders', path, `${path}/another-card`]) {
      const headers = { ...FORM_TYPE, 'Sec-Fetch-Site': 'cross-site' };
      const body = 'basket=book&attempt=1';
      const answer = await ask(`${shop.url}${each}`, { method: 'POST', headers, body });
      expect([each, answer.status, answer.headers['set-cookie']]).toEqual([each, 403, undefined]);
    }
    expect(await environment.newCharges()).toEqual([]);
  });

  /**
   * Bug: with a slash at the end of SHOP_URL the bank sent payers to an address with two slashes, which the shop does not have.
   * Cause: the path was added as it is.
   * Fix: the slash is left out.
   */
  test('sends payers back to its address, also if SHOP_URL ends in a slash', async () => {
    const slashed = await environment.examples.start('shop', {
      PORT: '0',
      IDEMPAY_URL: environment.url,
      ORDERS: ordersFile(),
      SHOP_URL: 'https://shop.example/',
    });
    const { headers } = await post(`${slashed.url}/orders`, 'basket=book');
    const { url } = await savedOrder(`${headers.location}`);
    expect(url).toBe(`https://shop.example${headers.location}`);
    await slashed.kill();
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

  describe('with payers who must confirm at their bank', () => {
    beforeEach(() => environment.behave({ pendingRate: 1 }));

    const statuses = async () => (await environment.newCharges()).map(({ status }) => status);
    /** Clicks, and returns the address of the bank's page. */
    async function toBank(path: string, attempt = 1, server = shop) {
      const { status, headers } = await post(`${server.url}${path}`, `attempt=${attempt}`);
      expect(status).toBe(303);
      return `${headers.location}`;
    }
    const atBank = async (bank: string, decision: 'confirm' | 'refuse') =>
      `${(await post(`${bank}/${decision}`, '')).headers.location}`;
    const endOfOrder = (path: string) =>
      until('the end of the order', 30_000, async () => (await savedOrder(path)).end);
    /** The service may have asked less than a second ago, when the payer had not confirmed yet. */
    const pageWith = (path: string, pattern: RegExp) =>
      until(`the page to show ${pattern}`, 10_000, async () => pattern.test(await page(path)));

    test('sends them there and back, and charges once', async () => {
      const path = await order();
      const bank = await toBank(path);
      expect(await toBank(path, 1, other)).toBe(bank);
      expect(await page(path)).toContain(`href="${bank}"`);
      expect(await atBank(bank, 'confirm')).toBe(`${shop.url}${path}`);
      await pageWith(path, PAID);
      expect((await click(path)).text).toMatch(PAID);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('offers another attempt after a refusal', async () => {
      const path = await order();
      await atBank(await toBank(path), 'refuse');
      await pageWith(path, /Declined: the payer refused/);
      expect(button(await page(path))).toEqual(['2', 'Try again']);
      await atBank(await toBank(path, 2), 'confirm');
      await pageWith(path, PAID);
      expect(await statuses()).toEqual(['declined', 'succeeded']);
    });

    test('ends the payment before another card is charged, and the bank charges nothing for it then', async () => {
      const path = await order();
      const bank = await toBank(path);
      expect(button(await page(path))).toEqual(['1', 'Another card']);
      // The turn of the next attempt has not come.
      expect(await toBank(path, 2)).toBe(bank);
      const ended = await post(`${other.url}${path}/another-card`, 'attempt=1');
      expect([ended.status, ended.headers.location]).toEqual([303, path]);
      expect(button(await page(path))).toEqual(['2', 'Try again']);
      await atBank(bank, 'confirm');
      expect(button(await page(path))).toEqual(['2', 'Try again']);
      await atBank(await toBank(path, 2), 'confirm');
      await pageWith(path, PAID);
      expect(await statuses()).toEqual(['declined', 'succeeded']);
    });

    test('keeps a payment that the bank does not end, and one that is paid', async () => {
      const path = await order();
      const bank = await toBank(path);
      await environment.behave({ endWith: 409 });
      await post(`${shop.url}${path}/another-card`, 'attempt=1');
      expect(button(await page(path))).toEqual(['1', 'Another card']);
      await environment.behave({ endWith: null });
      await atBank(bank, 'confirm');
      await post(`${shop.url}${path}/another-card`, 'attempt=1');
      expect(await page(path)).toMatch(PAID);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('tells the address of the bank only to the browser that ordered', async () => {
      const path = await order();
      const bank = await toBank(path);
      for (const session of ['', 'session=11111111-1111-4111-8111-111111111111']) {
        const { text } = await open(`${shop.url}${path}`, session);
        expect(text).toContain('Not paid yet');
        expect([text.includes(bank), button(text)]).toEqual([false, undefined]);
      }
      cookie = '';
      for (const each of [path, `${path}/another-card`])
        expect((await post(`${shop.url}${each}`, 'attempt=1')).status).toBe(404);
      expect(await statuses()).toEqual([]);
    });

    test('finishes an order whose payer does not come back, also after Idempay was killed', async () => {
      const path = await order();
      const bank = await toBank(path);
      await environment.killService();
      await atBank(bank, 'confirm');
      await environment.startService();
      expect(await endOfOrder(path)).toBe('paid');
      expect(await page(path)).toMatch(PAID);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('closes an order that is not paid after a day, and the bank charges nothing then', async () => {
      const path = await order();
      const bank = await toBank(path);
      await changeOrder(path, { orderedAtMs: 0 });
      expect(await endOfOrder(path)).toBe('closed');
      await atBank(bank, 'confirm');
      for (const attempt of [1, 2]) expect((await click(path, attempt)).text).toContain('closed');
      expect(await statuses()).toEqual(['declined']);
    });
  });
});
