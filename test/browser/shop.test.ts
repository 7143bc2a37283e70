import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Idempay } from '@idempay/client';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
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
    await page.goto(urlOf(shop));
    await page.click('button[value=book]');
    await page.waitForURL('**/orders/*');
    path = new URL(page.url()).pathname;
  });
  afterEach(() => context?.close());

  const start = (port: number) =>
    environment.examples.start('shop', {
      PORT: `${port}`,
      SHOP_URL: `http://localhost:${port}`,
      IDEMPAY_URL: environment.url,
      ORDERS: ordersFile(),
      LOOK_SECONDS: '1',
    });
  const ordersFile = () => join(environment.folder, 'orders.ndjson');
  /** The bank is at 127.0.0.1: another site, so that the browser applies its rules for cookies. */
  const urlOf = ({ port }: Service) => `http://localhost:${port}`;
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
  async function addScript(): Promise<void> {
    const script = codeBlocks('docs/guides/browser.md').find(({ language }) => language === 'js');
    await page.addScriptTag({ content: script?.text ?? 'throw new Error("no script in the guide")' });
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
    await page.goto(`${urlOf(other)}${path}`);
    const paid = await clickUntilPaid();
    shop = await start(shop.port);
    await page.goto(`${urlOf(shop)}${path}`);
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
    await tab.goto(`${urlOf(other)}${path}`);
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
    await page.goto(`${urlOf(shop)}${path}`);
    await clickUntilPaid();
    expect(await environment.newCharges()).toHaveLength(1);
  });

  test('the script of the guide clicks again by itself: a lost network, a killed server, one charge', async () => {
    await addScript();
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
    await addScript();
    await environment.behave({ declineRate: 1 });
    await click();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    await environment.behave({ declineRate: 0 });
    expect(await environment.newCharges()).toHaveLength(1);
    await click();
    await paidIn();
    expect((await environment.newCharges()).map(({ status }) => status)).toEqual(['declined', 'succeeded']);
  });

  describe('of a payer who must confirm at the bank', () => {
    beforeEach(() => environment.behave({ pendingRate: 1 }));

    const BANK = '**/pages/*';
    const statuses = async () => (await environment.newCharges()).map(({ status }) => status);
    async function toBank(tab = page): Promise<string> {
      await click(tab);
      await tab.waitForURL(BANK);
      return tab.url();
    }
    /** Clicks on the bank's page, which sends the browser back to the shop. */
    async function atBank(decision: 'Confirm' | 'Refuse', tab = page): Promise<void> {
      await tab.getByRole('button', { name: decision }).click();
      await tab.waitForURL(`${urlOf(shop)}${path}`);
    }
    const offers = (name: string, tab = page) => tab.getByRole('button', { name }).waitFor();

    test('goes to the bank, confirms, and comes back to an order that is paid', async () => {
      await toBank();
      const [back] = await Promise.all([page.waitForRequest(`${urlOf(shop)}${path}`), atBank('Confirm')]);
      // The browser came from another site: with SameSite=Strict it would send none.
      expect((await back.allHeaders()).cookie).toMatch(/session=/);
      await paidIn();
      expect(await page.locator('form').count()).toBe(0);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('refuses, comes back, and pays with another attempt', async () => {
      await toBank();
      await atBank('Refuse');
      await offers('Try again');
      await toBank();
      await atBank('Confirm');
      await paidIn();
      expect(await statuses()).toEqual(['declined', 'succeeded']);
    });

    test('goes back without an answer and takes another card: the bank charges nothing for the first one', async () => {
      const bank = await toBank();
      const old = await context.newPage();
      await old.goto(bank);
      await page.goBack();
      await offers('Another card');
      await click();
      await offers('Try again');
      // The page from before still has its buttons.
      await atBank('Confirm', old);
      await offers('Try again', old);
      expect(await statuses()).toEqual(['declined']);
      await old.goto(bank);
      expect(await old.textContent('body')).toContain('This payment has declined');
      expect(await old.getByRole('button').count()).toBe(0);

      await environment.behave({ pendingRate: 0 });
      await click();
      await paidIn();
      await old.goto(bank);
      expect(await old.getByRole('button').count()).toBe(0);
      expect(await statuses()).toEqual(['declined', 'succeeded']);
    });

    test('goes back with the back button, and goes on at the bank', async () => {
      const bank = await toBank();
      await page.goBack();
      await page.getByRole('link', { name: 'Confirm at your bank' }).click();
      await page.waitForURL(bank);
      await atBank('Confirm');
      const paid = await paidIn();
      // The back button leads to the bank's page, and then to the earlier page of the order.
      await page.goBack();
      expect(page.url()).toBe(bank);
      await page.goBack();
      expect(await paidIn()).toBe(paid);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('has two tabs: both are at the same payment, and the one that waits shows the outcome by itself', async () => {
      const [tab, third] = [await context.newPage(), await context.newPage()];
      for (const each of [tab, third]) await each.goto(`${urlOf(other)}${path}`);
      const bank = await toBank();
      expect(await toBank(tab)).toBe(bank);
      await third.reload();
      await third.getByRole('link', { name: 'Confirm at your bank' }).waitFor();
      await atBank('Confirm');
      const paid = await paidIn();
      expect(await paidIn(third)).toBe(paid);
      await atBank('Confirm', tab);
      expect(await paidIn(tab)).toBe(paid);
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('has two tabs, and takes another card in one while the other is at the bank', async () => {
      const tab = await context.newPage();
      await tab.goto(page.url());
      await toBank();
      await tab.reload();
      await tab.getByRole('button', { name: 'Another card' }).click();
      await offers('Try again', tab);
      await atBank('Confirm');
      await offers('Try again');
      expect(await statuses()).toEqual(['declined']);
    });

    test('closes the tab and confirms in the app of the bank: the look of the shop finishes the order', async () => {
      const bank = await toBank();
      await page.close();
      await ask(`${bank}/confirm`, { method: 'POST' });
      const isPaid = (line: string) => line.includes(path.replace('/orders/', '')) && line.includes('"end":"paid"');
      await until('the end of the order', 30_000, async () =>
        (await readFile(ordersFile(), 'utf8')).split('\n').some(isPaid),
      );
      page = await context.newPage();
      await page.goto(`${urlOf(other)}${path}`);
      await paidIn();
      expect(await statuses()).toEqual(['succeeded']);
    });

    test('is in another browser, which learns nothing of the bank', async () => {
      const bank = await toBank();
      const stranger = await browser.newContext();
      const tab = await stranger.newPage();
      await tab.goto(`${urlOf(shop)}${path}`);
      expect(await textIn(tab)).toMatch(/^Not paid yet/);
      expect(await tab.content()).not.toContain(bank);
      expect(await tab.locator('form, a').count()).toBe(0);
      await stranger.close();
    });

    test('is sent to the bank by the script of the guide as well', async () => {
      await addScript();
      await environment.behave(SLOW);
      await toBank();
      await atBank('Confirm');
      await paidIn();
      expect(await statuses()).toEqual(['succeeded']);
    });
  });

  describe('and the page of the shopkeeper, who gives one line of it back', () => {
    const GIVEN_BACK = /^Given back: TXN\d+$/;
    let office: Service;
    let desk: Page;
    let key: string;

    beforeEach(async () => {
      office = await startOffice(await freePort());
      await page.goto(urlOf(shop));
      await page.getByRole('button', { name: 'book and lamp' }).click();
      await page.waitForURL('**/orders/*');
      path = new URL(page.url()).pathname;
      await clickUntilPaid();
      const reference = path.replace('/orders/', 'order-');
      key = (await new Idempay({ baseUrl: environment.url }).payments.status({ reference })).idempotencyKey;
      desk = await context.newPage();
      await openDesk();
    });
    afterEach(() => office?.kill());

    const startOffice = (port: number) =>
      environment.examples.start('back-office', {
        PORT: `${port}`,
        IDEMPAY_URL: environment.url,
        ORDERS: ordersFile(),
        RETURNS: join(environment.folder, 'returns.ndjson'),
        LOOK_SECONDS: '1',
      });
    const lamp = (tab = desk) => tab.locator('li', { hasText: 'lamp' });
    const giveBack = (tab = desk) => lamp(tab).getByRole('button', { name: 'Give back' });
    /** The shop's own look finds that the order is paid, and then the page has buttons. */
    const openDesk = (tab = desk) =>
      until('the button', 30_000, async () => {
        await tab.goto(`${urlOf(office)}${path}`);
        return (await giveBack(tab).count()) === 1;
      });
    /** The page asks again by itself while the refund is under way. */
    const givenBackIn = (tab = desk) =>
      until(
        'the page to say that the line is given back',
        60_000,
        async () => GIVEN_BACK.exec(await textIn(tab).catch(() => ''))?.[0],
      );
    const refunds = async () => (await environment.refundsOf(key)).map(({ amount, status }) => ({ amount, status }));
    const newRefund = () => until('the refund', 30_000, async () => (await refunds()).length > 0);
    const LAMP_BACK = [{ amount: '89.00', status: 'succeeded' }];

    test('clicks twice, loses replies, and reloads: one refund of the one line', async () => {
      const tab = await context.newPage();
      await openDesk(tab);
      await environment.behave({ ...SLOW, lostReplyRate: 1 });
      await giveBack().dblclick({ noWaitAfter: true });
      await giveBack(tab).click({ noWaitAfter: true });
      await newRefund();
      await tab.goto(`${urlOf(office)}${path}`);
      await environment.behave({ lostReplyRate: 0 });
      const text = await givenBackIn(tab);
      await desk.goto(`${urlOf(office)}${path}`);
      expect(await givenBackIn()).toBe(text);
      await desk.reload();
      expect(await givenBackIn()).toBe(text);
      expect([await giveBack().count(), await desk.getByRole('button').count()]).toEqual([0, 1]);
      expect(await refunds()).toEqual(LAMP_BACK);
    });

    test('clicks, and the back office is killed: after its start it gives back by itself, once', async () => {
      await environment.behave(SLOW);
      await giveBack().click({ noWaitAfter: true });
      await newRefund();
      await office.kill();
      office = await startOffice(office.port);
      await desk.goto(`${urlOf(office)}${path}`);
      await givenBackIn();
      expect(await refunds()).toEqual(LAMP_BACK);
    });

    test('sees that a refund takes time, and that another one is declined', async () => {
      await environment.behave({ refundPendingRate: 1 });
      await giveBack().click();
      await until('the page to say so', 30_000, async () =>
        (await textIn(desk)).startsWith('The bank takes its time.'),
      );
      await environment.behave({ refundPendingRate: 0, declineRate: 1 });
      await desk.getByRole('button', { name: 'Give back' }).click();
      await desk.getByText(/^Declined: /).waitFor();
      await environment.behave({ declineRate: 0 });
      expect(await desk.getByRole('button').count()).toBe(0);
    });
  });
});
