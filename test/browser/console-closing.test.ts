import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles, expectClean, factOf } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const BODY = { amount: '100.50', currency: 'EUR' };
const REFUSED = /the server responded with a status of 4\d\d/;

const payOrder = (url: string, reference: string, attempt = 1, headers: Record<string, string> = {}) =>
  sendJson(`${url}/api/payment?${new URLSearchParams({ reference, attempt: String(attempt) })}`, 'POST', BODY, headers);
const searchField = (page: Page) => page.getByLabel('Order number, key, transaction id, description or metadata');
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const keyShown = (page: Page) => new URL(page.url()).hash.split('/').at(-1) ?? '';

async function confirm(page: Page, what: 'order' | 'payment'): Promise<void> {
  const button = page.getByRole('dialog').getByRole('button', { name: `Close this ${what}`, exact: true });
  expect(await button.isDisabled()).toBe(true);
  await page.getByLabel('To close it, type').fill('Close');
  await button.click();
}

const closedShown = async (page: Page) => {
  await page.locator('h1 .badge', { hasText: 'CANCELLED' }).waitFor();
  await page.getByText('Closed: no charge is sent').waitFor();
};

describeDeployments('closing an order in the console', (deployment) => {
  const processed = shareProcessedService(deployment);
  const tabs = consoles();
  const open = (hash = '#/payments') => tabs.open(processed().url, { hash, locale: 'en-GB' });
  /** The first attempt at the order. Returns its key. */
  async function declineOrder(reference: string): Promise<string> {
    const { url, processor } = processed();
    await processor.behave({ declineRate: 1 });
    const declined = await payOrder(url, reference);
    await processor.behave({ declineRate: 0 });
    expect(declined.status).toBe(402);
    return String(declined.headers['idempotency-key']);
  }

  test('an order that nobody paid is found missing, closed, and cannot be paid', async () => {
    const { url, processor } = processed();
    const tab = await open();
    const { page } = tab;
    await searchField(page).fill(' order-17 ');
    await page.getByRole('heading', { name: 'Nothing found for “order-17”' }).waitFor();
    expect(new URL(page.url()).hash).toBe('#/payments?search=order-17');
    await press(page, 'Close the order of this number…');
    await page.getByRole('heading', { name: 'Close an order' }).waitFor();
    // Without AUTH there are no clients.
    expect(await page.getByLabel('Client').count()).toBe(0);
    expect(await page.getByLabel('Order number (reference)').inputValue()).toBe('order-17');
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'closing-order');
    await press(page, 'Close…');
    await page.getByText('The order order-17 will never be charged').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `closing-confirm-${deployment.name}`);
    await confirm(page, 'order');

    await closedShown(page);
    expect(await page.locator('.timeline li strong').allInnerTexts()).toEqual(['Closed', 'Next']);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-closed-${deployment.name}`);
    expectClean(tab, url);
    const key = keyShown(page);
    expectError(await payOrder(url, 'order-17'), 410, /^The payment was cancelled\./);
    expect(await processor.chargesOf(key)).toEqual([]);
    expect(await shownPaymentOf(url, key)).toMatchObject({ reference: 'order-17', attempt: 1, state: 'CANCELLED' });

    await page.getByRole('link', { name: 'order-17', exact: true }).click();
    await page.getByRole('link', { name: 'order-17 · attempt 1' }).waitFor();
    await page.getByRole('cell', { name: 'CANCELLED' }).waitFor();
  });

  test('after a decline the next attempt is closed; the attempts lead to each other', async () => {
    const { url } = processed();
    await declineOrder('1001');
    const { page } = await open();
    await searchField(page).fill('1001');
    await page.getByRole('link', { name: '1001 · attempt 1' }).click();
    await press(page, 'Close this order…');
    expect(await page.getByLabel('Attempt', { exact: true }).inputValue()).toBe('2');
    await press(page, 'Close…');
    await confirm(page, 'order');
    await closedShown(page);
    expectError(await payOrder(url, '1001', 2), 410);
    await page.getByRole('link', { name: 'attempt 1', exact: true }).click();
    await page.locator('h1 .badge', { hasText: 'DECLINED' }).waitFor();
    await page.getByRole('link', { name: 'attempt 2', exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'Close this order…' }).count()).toBe(0);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payment-attempts');

    await page.goto(`${url}/console#/payments?reference=1001`);
    await page.getByRole('link', { name: '1001 · attempt 2' }).waitFor();
    await takeScreenshots(page, 'payments-of-an-order');
    // A number that a key may begin with is looked for as both.
    await searchField(page).fill('100');
    await page.getByText('Keys that begin so: nothing').waitFor();
  });

  /**
   * Bug: "Other attempts: none" and "Close this order…" were shown though nobody knew of the other attempts.
   * Cause: the answer before the payment was read was an empty list, which was kept when the request for the attempts failed.
   * Fix: there is no answer before the payment is read, and a failure is shown in place of an earlier answer.
   */
  test('an order is not closed while its other attempts are unknown, or have no next one', async () => {
    const { url } = processed();
    const key = await declineOrder('order-19');
    const { page } = await open();
    const attempts = (address: URL) => address.searchParams.get('reference') === 'order-19';
    await page.route(attempts, (route) => route.fulfill({ status: 503, body: 'busy' }));
    await page.goto(`${url}/console#/payment/${key}`);
    await page.locator('h1 .badge', { hasText: 'DECLINED' }).waitFor();
    const others = factOf(page, 'Other attempts');
    const closing = page.getByRole('button', { name: 'Close this order…' });
    await others.getByText('503').waitFor();
    expect([await others.getByText('none').count(), await closing.count()]).toEqual([0, 0]);
    await page.unroute(attempts);
    await press(page, 'Refresh');
    await others.getByText('none').waitFor();
    await closing.waitFor();

    await page.route(`**/api/payments/${key}`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), attempt: 99 } });
    });
    await page.reload();
    await factOf(page, 'Attempt').getByText('99').waitFor();
    await others.getByText('none').waitFor();
    expect(await closing.count()).toBe(0);
  });

  test('a key that is not paid yet is closed; a refusal says what the payment is', async () => {
    const { url } = processed();
    const keys = [await generateKey(url), await generateKey(url)] as const;
    const tab = await open(`#/payment/${keys[0]}`);
    const { page } = tab;
    await press(page, 'Close this payment…');
    await confirm(page, 'payment');
    await closedShown(page);
    expectError(await pay(url, keys[0], BODY), 410);

    await page.goto(`${url}/console#/payment/${keys[1]}`);
    await press(page, 'Close this payment…');
    const { transactionId } = await pay(url, keys[1], BODY).then(() => shownPaymentOf(url, keys[1]));
    // The payment is seen as completed below the dialog, which stays open.
    await page.locator('h1 .badge', { hasText: 'COMPLETED' }).waitFor({ state: 'attached' });
    await confirm(page, 'payment');
    await page.getByText(`The payment is completed with Transaction ID: ${transactionId}.`).waitFor();
    expect(await page.getByRole('dialog').textContent()).not.toContain('It may have been closed');
    await takeScreenshots(page, 'closing-refused');
    await press(page, 'Back');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expectClean(tab, url, REFUSED);
  });
});

describe('closing an order with AUTH=required', async () => {
  const operator = credentialOf('operator', ['operations']);
  const shop = credentialOf('shop', ['payments:read', 'payments:write']);
  const reader = credentialOf('reader', ['payments:read']);
  const keys = await requireKeys(operator, shop, reader);
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('an operator names the client, whose order it is, and no other client’s', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/payments?reference=order-17' });
    await press(page, 'Close this order…');
    await press(page, 'Close…');
    await page.getByText('Say whose order it is.').waitFor();
    await takeScreenshots(page, 'closing-order-of-a-client');
    const offered = await page
      .locator('#closing-client-choices option')
      .evaluateAll((options) => options.map((option) => (option as unknown as { value: string }).value));
    expect(offered).toEqual(['key:operator', 'key:shop', 'key:reader']);
    await page.getByLabel('Client').fill('key:shpo');
    await press(page, 'Close…');
    await confirm(page, 'order');
    await page.getByText("'client' is not known").waitFor();
    await press(page, 'Back');
    await page.getByLabel('Client').fill('key:shop');
    await press(page, 'Close…');
    await page.getByText('The order order-17 of the client key:shop will never be charged').waitFor();
    await confirm(page, 'order');
    await closedShown(page);
    await factOf(page, 'Client').getByText('key:shop').waitFor();
    expectError(await payOrder(shared.url, 'order-17', 1, { ...shop.headers }), 410);
    await page.goto(`${shared.url}/console#/payments`);
    await page.getByRole('cell', { name: 'key:shop' }).waitFor();
  });

  test('a client closes its own, and only with the scope to pay', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(shop), hash: '#/payments' });
    await press(page, 'Close an order…');
    expect(await page.getByLabel('Client').count()).toBe(0);
    await page.getByLabel('Order number (reference)').fill('order 18');
    await press(page, 'Close…');
    await confirm(page, 'order');
    await page.getByText("'reference' must name one order").waitFor();
    await press(page, 'Back');
    await page.getByLabel('Order number (reference)').fill('order-18');
    await press(page, 'Close…');
    await confirm(page, 'order');
    await closedShown(page);
    expectError(await payOrder(shared.url, 'order-18', 1, { ...shop.headers }), 410);

    const { page: other } = await tabs.open(shared.url, { secret: secretOf(reader), hash: '#/payments' });
    await other.getByRole('heading', { name: 'No payments yet' }).waitFor();
    expect(await other.getByRole('button', { name: 'Close an order…' }).count()).toBe(0);
    expect((await ask(`${shared.url}/api/payments`, { headers: reader.headers })).json()).toEqual([]);
  });
});
