import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { accessibilityProblems, consoles, expectClean, factOf, PHONE } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MONEY = { amount: '59.90', currency: 'EUR' };
const SHOP = {
  description: 'Blue canvas shoes, size 42',
  metadata: { cart: 'c-8812', channel: 'web', 'ship to': 'Oslo' },
};
const MARKUP = `<img src=x onerror="document.title='owned'"><b>bold</b>`;
/** Markup, characters that turn the text around, and lines. */
const HOSTILE = {
  description: `${MARKUP}\u202egnp.exe\nthe second line`,
  metadata: { '<b>name</b>\u202e': MARKUP, empty: '' },
};
/** As long as a description and metadata may be, without a space. */
const LONGEST = {
  description: '\u{1f45f}'.repeat(255),
  metadata: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`${n}`.padEnd(40, 'n'), 'x'.repeat(500)])),
};

const isAsWideAsItsWindow = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

describe('what a payment is about', () => {
  const shared = shareService(embedded);
  const tabs = consoles();
  const open = (hash: string, viewport?: typeof PHONE) =>
    tabs.open(shared.url, { hash, locale: 'en-GB', ...(viewport && { viewport }) });
  const payOrder = (reference: string, content: object) =>
    sendJson(`${shared.url}/api/payment?reference=${reference}`, 'POST', { ...MONEY, ...content });
  async function paidWith(content: object): Promise<string> {
    const key = await generateKey(shared.url);
    expect((await pay(shared.url, key, { ...MONEY, ...content })).status).toBe(200);
    return key;
  }

  test('is shown in short in the list, below its order, and in full in the view of the payment', async () => {
    expect((await payOrder('order-17', SHOP)).status).toBe(200);
    const tab = await open('#/payments?reference=order-17');
    const { page } = tab;
    const row = page.locator('tbody tr');
    await row.getByText('order-17 · attempt 1').waitFor();
    await row.getByText(SHOP.description).waitFor();
    expect(await row.locator('.content').allInnerTexts()).toEqual([
      `${SHOP.description}\ncart c-8812\nchannel web\nand 1 more`,
    ]);
    expect(await accessibilityProblems(page)).toEqual([]);
    await page.getByRole('link', { name: 'order-17 · attempt 1' }).click();
    await page.getByRole('heading', { name: 'Payment' }).waitFor();
    expect(await factOf(page, 'Order').textContent()).toBe('order-17');
    expect(await factOf(page, 'Attempt').textContent()).toBe('1');
    expect(await factOf(page, 'Description').textContent()).toBe(SHOP.description);
    expect(await factOf(page, 'Metadata').locator('li').allInnerTexts()).toEqual([
      'cart c-8812',
      'channel web',
      'ship to Oslo',
    ]);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payment-content');
    expectClean(tab, shared.url);
  });

  test('is text: markup is shown, and a text that turns around stays in its own place', async () => {
    const key = await paidWith(HOSTILE);
    for (const hash of [`#/payments?find=${key}`, `#/payment/${key}`]) {
      const tab = await open(hash);
      const { page } = tab;
      await page.getByText('onerror').first().waitFor();
      expect(await page.locator('main img, main b').count()).toBe(0);
      const isolated = page.locator('bdi', { hasText: 'gnp.exe' });
      expect(await isolated.evaluate((element) => getComputedStyle(element).unicodeBidi)).toContain('isolate');
      expect(await page.title()).not.toBe('owned');
      expectClean(tab, shared.url);
    }
    const { page } = await open(`#/payment/${key}`);
    await page.getByText('onerror').first().waitFor();
    expect(await factOf(page, 'Description').textContent()).toBe(HOSTILE.description);
    expect(await factOf(page, 'Description').allInnerTexts()).toEqual([
      expect.stringMatching(/gnp\.exe\nthe second line$/),
    ]);
  });

  test('is clipped in the list where it is long, and whole in the payment; neither is wider than a phone', async () => {
    const key = await paidWith(LONGEST);
    await paidWith(SHOP);
    await paidWith({});
    const { page } = await open('#/payments', PHONE);
    const row = page.locator('tbody tr', { hasText: key });
    await row.getByText('and 18 more').waitFor();
    expect((await row.locator('.content').textContent())?.length).toBeLessThan(250);
    expect(await isAsWideAsItsWindow(page)).toBe(true);
    const section = page.locator('.table-scroll');
    expect(await section.evaluate((element) => element.scrollWidth <= element.clientWidth)).toBe(true);
    await page.getByText(SHOP.description).first().waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payments-content');
    await page.getByRole('link', { name: key }).click();
    await page.getByRole('heading', { name: 'Payment' }).waitFor();
    expect(await factOf(page, 'Description').textContent()).toBe(LONGEST.description);
    const shown = await factOf(page, 'Metadata').locator('li').allInnerTexts();
    expect(shown).toEqual(Object.entries(LONGEST.metadata).map(([name, value]) => `${name} ${value}`));
    expect(await isAsWideAsItsWindow(page)).toBe(true);
  });

  test('is shown nowhere where the client said nothing', async () => {
    const key = await paidWith({ metadata: {} });
    const { page } = await open(`#/payments?find=${key}`);
    await page.getByRole('link', { name: key }).waitFor();
    expect(await page.locator('tbody .content').count()).toBe(0);
    await page.getByRole('link', { name: key }).click();
    await factOf(page, 'Key').waitFor();
    expect(await page.getByText(/Description|Metadata/).count()).toBe(0);
  });
});
