import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sharePayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import { codeBlocks } from '../../testkit/documents/code-blocks.js';
import type { Service } from '../../testkit/processes/service.js';
import { pagePatience, startChromium } from '../../testkit/servers/chromium.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const PAID = /^Paid: TXN\d+$/;
/** Long enough to do something else in the middle of a payment. */
const SLOW = { latencyMs: 600, replyLatencyMs: 600 };

describe('the page of an order in the shop of examples/, in Chromium', () => {
  let browser: Browser;
  const environment = sharePayerEnvironment();
  let shop: Service;
  let other: Service;
  let context: BrowserContext;
  let page: Page;
  let path: string;

  beforeAll(async () => {
    browser = await startChromium();
    [shop, other] = await Promise.all([start(await freePort()), start(await freePort())]);
  });
  afterAll(async () => {
    await browser?.close();
    await shop?.kill();
    await other?.kill();
  });
  beforeEach(async () => {
    context = await browser.newContext();
    context.setDefaultTimeout(pagePatience());
    page = await context.newPage();
    await page.goto(shop.url);
    await page.click('button[value=book]');
    await page.waitForURL('**/orders/*');
    path = new URL(page.url()).pathname;
  });
  afterEach(() => context?.close());

  const start = (port: number) =>
    environment.examples.start('shop', {
      PORT: `${port}`,
      IDEMPAY_URL: environment.url,
      ORDERS: join(environment.folder, 'orders.ndjson'),
    });
  /** As a payer does, who does not wait for the answer. */
  const click = (tab = page) => tab.click('form button', { noWaitAfter: true });
  const textIn = async (tab: Page) => (await tab.locator('[role=status]').textContent({ timeout: 2_000 })) ?? '';
  const paidIn = (tab = page) =>
    until('the page to say that it is paid', 30_000, async () => PAID.exec(await textIn(tab).catch(() => ''))?.[0]);
  /** Acts as a payer after a reload, or at another server: clicks again, if there is a button. */
  async function clickUntilPaid(tab = page): Promise<string> {
    if (!PAID.test(await textIn(tab))) await click(tab);
    return paidIn(tab);
  }
  const newCharge = () => until('the charge', 10_000, async () => (await environment.newCharges()).length > 0);

  test('two clicks are one charge', async () => {
    await environment.behave(SLOW);
    await page.dblclick('form button', { noWaitAfter: true });
    await paidIn();
    expect(await environment.newCharges()).toMatchObject([{ amount: '24.90', currency: 'EUR', status: 'succeeded' }]);
    expect(await page.locator('form').count()).toBe(0);
  });

  test('a reload in the middle, and another click, are one charge', async () => {
    await environment.behave(SLOW);
    await click();
    await newCharge();
    await page.goto(page.url());
    const paid = await clickUntilPaid();
    await page.reload();
    expect(await paidIn()).toBe(paid);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('the server is killed in the middle, and the other one is clicked: one charge', async () => {
    await environment.behave(SLOW);
    await click();
    await newCharge();
    await shop.kill();
    // In the first tab the browser says that the connection is lost.
    page = await context.newPage();
    await page.goto(`${other.url}${path}`);
    const paid = await clickUntilPaid();
    shop = await start(shop.port);
    await page.goto(`${shop.url}${path}`);
    expect(await textIn(page)).toBe(paid);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('"Try again" after a decline is one charge, and a page from before it charges nothing', async () => {
    const old = await context.newPage();
    await old.goto(page.url());
    await environment.behave({ declineRate: 1 });
    await click();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    expect(await textIn(page)).toMatch(/^Declined: /);
    await environment.behave({ declineRate: 0, ...SLOW });
    await click(old);
    await old.getByRole('button', { name: 'Try again' }).waitFor();
    expect(await environment.newCharges()).toHaveLength(1);

    await page.dblclick('form button', { noWaitAfter: true });
    await click(old);
    expect(await paidIn(old)).toBe(await paidIn());
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });

  test('two tabs and the back button are one charge, and show the same payment', async () => {
    await environment.behave(SLOW);
    const tab = await context.newPage();
    await tab.goto(`${other.url}${path}`);
    await Promise.all([click(), click(tab)]);
    const paid = await paidIn();
    expect(await paidIn(tab)).toBe(paid);
    await page.goto('about:blank');
    await page.goBack();
    expect(await paidIn()).toBe(paid);
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('a window that is closed in the middle leaves an order that is paid once', async () => {
    await environment.behave({ ...SLOW, lostReplyRate: 1 });
    await click();
    await newCharge();
    await page.close();
    await environment.behave({ lostReplyRate: 0 });
    page = await context.newPage();
    await page.goto(`${shop.url}${path}`);
    await clickUntilPaid();
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('the script of the guide clicks again by itself: a lost network, a killed server, one charge', async () => {
    const script = codeBlocks('docs/guides/browser.md').find(({ language }) => language === 'js');
    await page.addScriptTag({ content: script?.text ?? 'throw new Error("no script in the guide")' });
    await environment.behave(SLOW);
    await click();
    await newCharge();
    await context.setOffline(true);
    await shop.kill();
    await context.setOffline(false);
    shop = await start(shop.port);
    await paidIn();
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('the script of the guide does not try again after a decline', async () => {
    const script = codeBlocks('docs/guides/browser.md').find(({ language }) => language === 'js');
    await page.addScriptTag({ content: script?.text ?? 'throw new Error("no script in the guide")' });
    await environment.behave({ declineRate: 1 });
    await click();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    await environment.behave({ declineRate: 0 });
    expect(await environment.newCharges()).toHaveLength(1);
    await click();
    await paidIn();
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });
});
