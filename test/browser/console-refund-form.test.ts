/**
 * Bug: the form to refund gave another amount back than the confirmed one, and could refund the same money under a second name. Cause: its
 * amount was what is left now, and followed each look; what is left was never read again before it was opened; and an unclear answer was
 * forgotten with the page. Fix: the form reads the payment when it opens and keeps that, and an unclear request is kept until its outcome.
 */
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, test } from 'vitest';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { accessibilityProblems, consoles } from '../../testkit/console/console.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const BODY = { amount: '100.50', currency: 'EUR' };
const REFUND_KEY = '01a20492-901c-70a0-943a-94814aa8fa0c';

interface Shown {
  readonly refunded: string;
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly amount: string;
}

const dialogOf = (page: Page) => page.getByRole('dialog');
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const refundedShown = (page: Page, text: string) => page.locator('.refunded').getByText(text).waitFor();
const isEditable = async (page: Page, label: string) =>
  (await page.getByLabel(label).getAttribute('readonly')) === null;

/** Shows the payment as if it had a refund `line-0`, which `set` changes. The page's requests to refund reach the service. */
async function pretendRefund(page: Page, key: string, first: Shown) {
  let shown = first;
  await page.route(`**/api/payments/${key}`, async (route) => {
    const { 'if-none-match': _, ...headers } = route.request().headers();
    const response = await route.fetch({ headers });
    await route.fulfill({ response, json: { ...(await response.json()), refunded: shown.refunded } });
  });
  await page.route(`**/api/payments/${key}/refunds`, async (route) => {
    const { 'if-none-match': _, ...headers } = route.request().headers();
    // The record of a payment has all members that the record of a refund has.
    const response = await route.fetch({
      url: route
        .request()
        .url()
        .replace(/\/refunds$/, ''),
      headers,
    });
    const refund = { payment: key, name: 'line-0', reason: null };
    const { state, amount } = shown;
    await route.fulfill({
      response,
      json: [{ ...(await response.json()), idempotencyKey: REFUND_KEY, state, amount, refund }],
    });
  });
  return {
    set(next: Shown) {
      shown = next;
    },
  };
}

async function confirm(page: Page): Promise<void> {
  await dialogOf(page)
    .getByRole('button', { name: /^(?:Refund|Send again)…$/ })
    .click();
  const word = page.getByLabel('To give it back, type');
  await word.fill('refund');
  await word.press('Enter');
}

describe('the form to refund', () => {
  const shared = shareProcessedService(embedded);
  const tabs = consoles();
  let opened: Page | undefined;

  // The page polls on, and a handler whose page is closed would reject.
  afterEach(() => opened?.unrouteAll({ behavior: 'ignoreErrors' }));

  async function openPaid(reference: string, prepare?: (page: Page, key: string) => Promise<void>) {
    const { url } = shared();
    const paid = await sendJson(`${url}/api/payment?reference=${reference}`, 'POST', BODY);
    expect(paid.status, paid.text).toBe(200);
    const key = String(paid.headers['idempotency-key']);
    const { page } = await tabs.open(url, { hash: '#/service', locale: 'en-GB' });
    // From here on the page follows its address.
    await page.getByRole('heading', { name: 'Service' }).waitFor();
    opened = page;
    await prepare?.(page, key);
    await page.goto(`${url}/console#/payment/${key}`);
    return { url, key, page };
  }

  const refundsOf = async (url: string, key: string) => {
    const { json } = await ask(`${url}/api/payments/${key}/refunds`);
    return json<{ amount: string; refund: { name: string } }[]>().map(
      ({ amount, refund: { name } }) => `${name} ${amount}`,
    );
  };

  test('gives back the confirmed amount, although more is left meanwhile', async () => {
    let refund: Awaited<ReturnType<typeof pretendRefund>> | undefined;
    const { url, key, page } = await openPaid('order-1', async (page, key) => {
      refund = await pretendRefund(page, key, { refunded: '60.50', state: 'PROCESSING', amount: '60.50' });
    });
    await refundedShown(page, 'Refunded 60.50 of 100.50 EUR (40.00 EUR is left)');
    await press(page, 'Refund…');
    await page.getByLabel('Name of this refund').fill('line-1');
    expect(await page.getByLabel('Amount in EUR').inputValue()).toBe('40.00');
    await dialogOf(page).getByRole('button', { name: 'Refund…' }).click();
    await page.getByRole('heading', { name: 'Refund 40.00 EUR?' }).waitFor();
    refund?.set({ refunded: '0.00', state: 'DECLINED', amount: '60.50' });
    await refundedShown(page, '(100.50 EUR is left)');
    const word = page.getByLabel('To give it back, type');
    await word.fill('refund');
    expect(await dialogOf(page).textContent()).toContain('what is left has changed from 40.00 to 100.50 EUR.');
    expect(await accessibilityProblems(page)).toEqual([]);
    await word.press('Enter');
    await page.getByText('40.00 EUR was given back as line-1.').waitFor();
    expect(await refundsOf(url, key)).toEqual(['line-1 40.00']);
  });

  test('begins with what is left now, and a tab that is shown again says it', async () => {
    const { url, key, page } = await openPaid('order-2');
    await refundedShown(page, 'Nothing of 100.50 EUR was refunded.');
    const refund = (name: string) =>
      sendJson(
        `${url}/api/refund?refund=${name}`,
        'POST',
        { amount: '12.50', currency: 'EUR' },
        { 'Idempotency-Key': key },
      );
    expect((await refund('line-1')).status).toBe(200);
    await press(page, 'Refund…');
    await page.getByLabel('Name of this refund').fill('line-2');
    expect(await page.getByLabel('Amount in EUR').inputValue()).toBe('88.00');
    await refundedShown(page, 'Refunded 12.50 of 100.50 EUR (88.00 EUR is left)');
    await press(page, 'Back');
    expect((await refund('line-2')).status).toBe(200);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await refundedShown(page, 'Refunded 25.00 of 100.50 EUR (75.50 EUR is left)');
    await page.locator('.refunds > li').filter({ hasText: 'line-2' }).waitFor();
  });

  test('cannot be used while the payment cannot be read', async () => {
    const { key, page } = await openPaid('order-3');
    await refundedShown(page, 'Nothing of 100.50 EUR was refunded.');
    await page.route(`**/api/payments/${key}`, (route) => route.abort());
    await press(page, 'Refund…');
    await dialogOf(page).getByText('The service cannot be reached.').waitFor();
    expect(await page.getByLabel('Amount in EUR').count()).toBe(0);
    await page.unroute(`**/api/payments/${key}`);
    await dialogOf(page).getByRole('button', { name: 'Try again' }).click();
    await page.getByLabel('Amount in EUR').waitFor();
  });

  test('keeps the name and the amount of an unclear request, after other refusals and on other pages', async () => {
    const { key, page } = await openPaid('order-4');
    await page.route('**/api/refund?*', (route) => route.fulfill({ status: 502, body: 'Bad gateway' }));
    await press(page, 'Refund…');
    await page.getByLabel('Name of this refund').fill('line-1');
    await page.getByLabel('Amount in EUR').fill('10.00');
    await confirm(page);
    await dialogOf(page).getByText("An answer 502 came that is not the service's own.").waitFor();
    await page.unroute('**/api/refund?*');
    const message = 'At most 60 requests a minute are served to one client, and nothing was begun for this one.';
    await page.route('**/api/refund?*', (route) =>
      route.fulfill({
        status: 429,
        headers: { idempay: '1' },
        json: { status: 429, error: 'Too Many Requests', message },
      }),
    );
    await page.getByLabel('To give it back, type').press('Enter');
    await dialogOf(page).getByText(message).waitFor();
    await press(page, 'Back');
    expect(await isEditable(page, 'Name of this refund')).toBe(false);
    await press(page, 'Close');
    await page.getByRole('link', { name: 'Payments' }).first().click();
    await page.getByRole('heading', { name: 'Payments' }).waitFor();
    await page.goBack();
    await press(page, 'Send the refund again…');
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('line-1');
    expect(await page.getByLabel('Amount in EUR').inputValue()).toBe('10.00');
    expect(await isEditable(page, 'Name of this refund')).toBe(false);
    expect(await isEditable(page, 'Amount in EUR')).toBe(false);
    await page.unroute('**/api/refund?*');
    await confirm(page);
    await page.getByText('10.00 EUR was given back as line-1.').waitFor();
    expect(await refundsOf(shared().url, key)).toEqual(['line-1 10.00']);
    await press(page, 'Refund…');
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('');
  });

  test.each([
    ['COMPLETED', '10.00', '10.00 EUR was given back as line-0.'],
    ['DECLINED', '0.00', 'The refund line-0 of 10.00 EUR was declined, so its amount is left again.'],
  ] as const)(
    'closes when the refund that it sends again is %s meanwhile, and says so',
    async (state, refunded, sentence) => {
      let refund: Awaited<ReturnType<typeof pretendRefund>> | undefined;
      const { page } = await openPaid(`order-5-${state}`, async (page, key) => {
        refund = await pretendRefund(page, key, { refunded: '10.00', state: 'PROCESSING', amount: '10.00' });
      });
      await press(page, 'Send the refund line-0 again…');
      await page.getByLabel('Name of this refund').waitFor();
      expect(await isEditable(page, 'Name of this refund')).toBe(false);
      refund?.set({ refunded, state, amount: '10.00' });
      await dialogOf(page).waitFor({ state: 'detached' });
      await page.getByText(sentence).waitFor();
      await press(page, 'Refund…');
      expect(await page.getByLabel('Name of this refund').inputValue()).toBe('');
    },
  );
});
