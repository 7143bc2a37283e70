import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openPayerEnvironment, type PayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import type { Service } from '../../testkit/processes/service.js';
import { ROOT } from '../../testkit/programs.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { startChromium } from '../../testkit/servers/chromium.js';
import { until } from '../../testkit/time/until.js';

const PAID = /^Paid: TXN\d+$/;
/** Long enough to do something else in the middle of a payment. */
const SLOW = { latencyMs: 600, replyLatencyMs: 600 };

describe('the checkout of examples/, in Chromium', { timeout: 60_000 }, () => {
  let browser: Browser;
  let environment: PayerEnvironment;
  let shop: Service;
  let context: BrowserContext;
  let page: Page;
  let chargedBefore: number;

  beforeAll(async () => {
    browser = await startChromium();
    environment = await openPayerEnvironment();
    shop = await environment.examples.start('browser-checkout', {
      PORT: '0',
      IDEMPAY_URL: environment.url,
      ORDERS: environment.folder,
      PAGE: join(ROOT, 'examples', 'browser-checkout', 'page'),
    });
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await shop?.kill();
    await environment?.close();
  });
  beforeEach(async () => {
    await environment.behave({ declineRate: 0, latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0 });
    chargedBefore = (await environment.charges()).length;
    context = await browser.newContext();
    page = await context.newPage();
    await page.goto(shop.url);
  });
  afterEach(() => context?.close());

  const outcomeIn = async (tab: Page) => (await tab.locator('#outcome').textContent()) ?? '';
  const paidIn = (tab: Page) =>
    until('the page to say that it is paid', 30_000, async () => PAID.exec(await outcomeIn(tab))?.[0]);
  const newCharges = async () => (await environment.charges()).slice(chargedBefore);

  test('pays with the client in the page, and the page holds no credential', async () => {
    const sent: (Record<string, string> | undefined)[] = [];
    page.on('request', (request) => sent.push(request.headers()));
    await page.click('#pay');
    await paidIn(page);
    expect(await newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR', status: 'succeeded' }]);
    expect(sent.length).toBeGreaterThan(1);
    expect(sent.filter((headers) => headers?.authorization)).toEqual([]);
  });

  test('a double click is one charge', async () => {
    await environment.behave(SLOW);
    await page.dblclick('#pay');
    await paidIn(page);
    expect(await newCharges()).toHaveLength(1);
  });

  test('a page that calls pay twice at once is one charge', async () => {
    await environment.behave(SLOW);
    // As a script would that does not disable its button.
    await page.evaluate(
      "const button = document.querySelector('#pay'); button.click(); button.disabled = false; button.click()",
    );
    await paidIn(page);
    expect(await newCharges()).toHaveLength(1);
  });

  test('a reload in the middle of the payment goes on with it: one charge', async () => {
    await environment.behave(SLOW);
    await page.click('#pay');
    await until('the charge', 10_000, async () => (await newCharges()).length > 0);
    await page.reload();
    await paidIn(page);
    await page.reload();
    await paidIn(page);
    expect(await newCharges()).toHaveLength(1);
  });

  test('two tabs and the back button are one charge, and show the same payment', async () => {
    await environment.behave(SLOW);
    const tab = await context.newPage();
    await tab.goto(page.url());
    await Promise.all([page.click('#pay'), tab.click('#pay')]);
    const paid = await paidIn(page);
    expect(await paidIn(tab)).toBe(paid);
    await page.goto('about:blank');
    await page.goBack();
    expect(await paidIn(page)).toBe(paid);
    expect(await newCharges()).toHaveLength(1);
  });

  test('connections that are lost in the middle are one charge', async () => {
    await environment.behave(SLOW);
    await page.click('#pay');
    await until('the charge', 10_000, async () => (await newCharges()).length > 0);
    await context.setOffline(true);
    await context.setOffline(false);
    await paidIn(page);
    expect(await newCharges()).toHaveLength(1);
  });

  test('a window that is closed in the middle leaves an order that the shop finishes', async () => {
    await environment.behave({ ...SLOW, lostReplyRate: 1 });
    const address = page.url();
    await page.click('#pay');
    await until('the charge', 10_000, async () => (await newCharges()).length > 0);
    await page.close();
    await environment.behave({ lostReplyRate: 0 });
    page = await context.newPage();
    await page.goto(address);
    await paidIn(page);
    expect(await newCharges()).toHaveLength(1);
  });

  test('a decline lets the payer try again, with another key', async () => {
    await environment.behave({ declineRate: 1 });
    await page.click('#pay');
    await until('the decline', 10_000, async () => (await outcomeIn(page)).startsWith('Payment declined'));
    await environment.behave({ declineRate: 0 });
    await page.click('#pay');
    await paidIn(page);
    const charges = await newCharges();
    expect(charges.map(({ status }) => status)).toEqual(['declined', 'succeeded']);
    expect(new Set(charges.map(({ reference }) => reference)).size).toBe(2);
  });

  test('a key that is refused and may have been charged: the page says so, and takes no other click', async () => {
    const id = page.url().split('/').at(-1);
    await writeFile(join(environment.folder, `${id}.key-1`), newKeyOf(Date.now()));
    await page.click('#pay');
    const isSaid = async () => (await outcomeIn(page)).includes('We look for your payment');
    await until('the page to say so', 10_000, isSaid);
    expect(await page.isDisabled('#pay')).toBe(true);
    await page.reload();
    await until('the page to say so again', 10_000, isSaid);
    expect(await page.isDisabled('#pay')).toBe(true);
    expect(await newCharges()).toEqual([]);
  });

  test('a page cannot change the price', async () => {
    const base = `${page.url().replace('/checkout/', '/orders/')}/payments/1/api`;
    const key = (await (await page.request.get(`${base}/server-generated/generate-key`)).json()) as string;
    const data = { amount: '0.01', currency: 'EUR' };
    const answer = await page.request.post(`${base}/payment`, { headers: { 'Idempotency-Key': key }, data });
    const status = answer.status();
    expect(status).toBe(400);
    expect(await newCharges()).toEqual([]);
  });
});
