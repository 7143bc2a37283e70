import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask, generateKey, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { readPayment } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles, expectClean, factOf } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { type ProcessedService, shareProcessedService } from '../../testkit/deployments/processed-service.js';

const RETURN_URL = 'https://shop.example/back-from-the-bank';
const BODY = { amount: '100.50', currency: 'EUR', returnUrl: RETURN_URL };
const REFUSED = /the server responded with a status of (?:4\d\d|504)/;
const PENDING = 'waiting for the payer or the bank';

type Headers = Record<string, string>;
const payOrder = ({ url }: Pick<ProcessedService, 'url'>, reference: string, attempt = 1, headers: Headers = {}) =>
  sendJson(`${url}/api/payment?${new URLSearchParams({ reference, attempt: String(attempt) })}`, 'POST', BODY, headers);
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const stateShown = (page: Page, state: string) => page.locator('h1 .badge', { hasText: state }).waitFor();

async function makePending(service: ProcessedService, reference: string, headers: Headers = {}): Promise<string> {
  const answer = await payOrder(service, reference, 1, headers);
  expect(answer.status, answer.text).toBe(202);
  return String(answer.headers['idempotency-key']);
}

async function confirm(page: Page, what: 'payment' | 'attempt' = 'payment'): Promise<void> {
  const button = page.getByRole('dialog').getByRole('button', { name: `End this ${what}`, exact: true });
  expect(await button.isDisabled()).toBe(true);
  await page.getByLabel('To end it, type').fill('End');
  await button.click();
}

describeDeployments('a payment that waits for its payer, in the console', (deployment) => {
  const shared = shareProcessedService(deployment, { pendingRate: 1 }, { PROCESSOR_TIMEOUT_MS: '900' });
  const tabs = consoles();
  const open = (hash: string) => tabs.open(shared().url, { hash, locale: 'en-GB' });
  const statusesOf = async (key: string) => (await shared().processor.chargesOf(key)).map(({ status }) => status);

  test('is listed by a filter, and shows since when and until when it waits, and nothing that is its payer’s', async () => {
    const service = shared();
    const key = await makePending(service, 'order-1');
    await service.processor.behave({ pendingRate: 0 });
    expect((await payOrder(service, 'order-2')).status).toBe(200);
    await service.processor.behave({ pendingRate: 1 });
    const tab = await open('#/payments');
    const { page } = tab;
    const bodies: Promise<string>[] = [];
    page.on('response', (response) => bodies.push(response.text().catch(() => '')));
    await page.getByRole('link', { name: 'order-2 · attempt 1' }).waitFor();
    await page.getByLabel('State').selectOption(PENDING);
    await page.getByRole('link', { name: 'order-2 · attempt 1' }).waitFor({ state: 'detached' });
    expect(new URL(page.url()).hash).toBe('#/payments?pending=true');
    const row = page.getByRole('row').filter({ hasText: 'order-1 · attempt 1' });
    await row.getByText(/^waiting until /).waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payments-pending');

    await page.getByRole('link', { name: 'order-1 · attempt 1' }).click();
    await stateShown(page, 'PROCESSING');
    await factOf(page, 'Waiting for').getByText('its payer, or a bank').waitFor();
    await factOf(page, 'Waiting since').locator('time').waitFor();
    await factOf(page, 'Expected end')
      .getByText(/\(in 59 min/)
      .waitFor();
    await factOf(page, 'At the processor')
      .getByText(/^[0-9a-f-]{36}$/)
      .waitFor();
    const step = page.locator('.timeline li', { hasText: 'Waiting for the payer or a bank' });
    // The moment in its detail is a time of the reader.
    expect(await step.locator('.detail time').count()).toBe(1);
    await page.getByText('The processor waits for the payer, or for a bank').waitFor();
    expect(await page.getByRole('button', { name: 'Resolve…' }).isDisabled()).toBe(true);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-waiting-${deployment.name}`);
    const [pending] = (await ask(`${service.processor.url}/pending`)).json<{ url: string; reference: string }[]>();
    expect(pending?.reference).toBe(key);
    const read = [...(await Promise.all(bodies)), await page.content()].join('\n');
    expect(read).toContain(key);
    expect(read.includes(RETURN_URL) || read.includes('/pages/')).toBe(false);
    expectClean(tab, service.url);
  });

  test('is ended with its order, which is closed then', async () => {
    const service = shared();
    const key = await makePending(service, 'order-17');
    const tab = await open(`#/payment/${key}`);
    const { page } = tab;
    await press(page, 'End this payment…');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('the order order-17 is closed: whoever pays it from now on').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'ending-confirm');
    await confirm(page);
    await page.getByText('Attempt 1 is ended, and the order order-17 is closed.').waitFor();
    await stateShown(page, 'DECLINED');
    await factOf(page, 'Ending').getByText('A cancellation ended it with its order.').waitFor();
    await page.getByRole('link', { name: 'attempt 2', exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'Close this order…' }).count()).toBe(0);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-ended-${deployment.name}`);
    await press(page, 'Dismiss');
    await page.getByText('and the order order-17 is closed.').waitFor({ state: 'detached' });
    expect((await payOrder(service, 'order-17', 2)).status).toBe(410);
    expect(await statusesOf(key)).toEqual(['declined']);
    expectClean(tab, service.url);
  });

  test('is ended as one attempt, so that another one may follow', async () => {
    const service = shared();
    const key = await makePending(service, 'order-18');
    const { page } = await open(`#/payment/${key}`);
    expect((await payOrder(service, 'order-18', 2)).status).toBe(409);
    await press(page, 'End this payment…');
    await page.getByLabel('Only this attempt: another one may follow').check();
    await page.getByRole('dialog').getByText('another attempt at the order order-18 may follow.').waitFor();
    await takeScreenshots(page, 'ending-confirm-attempt');
    await confirm(page, 'attempt');
    await page.getByText('Attempt 2 may follow.').waitFor();
    await stateShown(page, 'DECLINED');
    await factOf(page, 'Ending').getByText('A cancellation ended it, only this attempt.').waitFor();
    expect((await payOrder(service, 'order-18', 2)).status).toBe(202);
  });

  test('that was paid while a person decided is not ended, and says so', async () => {
    const service = shared();
    const key = await makePending(service, 'order-19');
    const tab = await open(`#/payment/${key}`);
    const { page } = tab;
    await press(page, 'End this payment…');
    expect((await ask(`${service.processor.url}/pending/${key}/confirm`, { method: 'POST' })).status).toBe(200);
    await confirm(page);
    await page.getByText('It was paid meanwhile, so nothing was ended. The payment is completed with').waitFor();
    expect(await page.getByRole('dialog').textContent()).not.toContain('It may have been ended');
    await takeScreenshots(page, 'ending-refused');
    await press(page, 'Back');
    await stateShown(page, 'COMPLETED');
    expect(await page.getByRole('button', { name: 'End this payment…' }).count()).toBe(0);
    expectClean(tab, service.url, REFUSED);
  });

  test('is past its expected end while the processor does not answer, and an ending is asked for until it does', async () => {
    const service = shared();
    const { url, processor } = service;
    await processor.behave({ pendingMs: 1_000 });
    const key = await generateKey(url);
    const made = await sendJson(`${url}/api/payment`, 'POST', BODY, { 'Idempotency-Key': key });
    await processor.behave({ refuseWith: 503, pendingMs: 3_600_000 });
    expect(made.status, made.text).toBe(202);
    const { page } = await open('#/payments?pending=true');
    const row = page.getByRole('row').filter({ hasText: key });
    await row.waitFor();
    await page.goto(`${url}/console#/payment/${key}`);
    await factOf(page, 'Expected end').getByText('past its expected end').waitFor();
    await takeScreenshots(page, 'payment-past-its-end');
    await press(page, 'End this payment…');
    // The payment has no order that could stay open.
    expect(await page.getByLabel('Only this attempt').count()).toBe(0);
    await confirm(page);
    await page.getByText('The processor gave no clear answer, so it is not known yet').waitFor();
    await press(page, 'Back');
    await factOf(page, 'Ending').getByText('The processor is asked again until it answers').waitFor();
    await processor.behave({ refuseWith: null });
    await stateShown(page, 'DECLINED');
    await factOf(page, 'Ending').getByText('A cancellation ended it.').waitFor();
    expect((await readPayment(url, key)).json()).toMatchObject({ state: 'DECLINED', ending: 'order' });
  });
});

describe('a payment that waits for its payer, with AUTH=required', async () => {
  const operator = credentialOf('operator', ['operations']);
  const shop = credentialOf('shop', ['payments:read', 'payments:write']);
  const reader = credentialOf('reader', ['operations', 'payments:read']);
  const keys = await requireKeys(operator, shop, reader);
  const shared = shareProcessedService(embedded, { pendingRate: 1 }, keys.environment);
  const tabs = consoles();

  test('is ended by an operator as an attempt of its client, and by the client itself', async () => {
    const service = shared();
    const { url } = service;
    const key = await makePending(service, 'order-17', { ...shop.headers });
    const { page } = await tabs.open(url, { secret: secretOf(operator), hash: `#/payment/${key}` });
    await press(page, 'End this payment…');
    await page.getByLabel('Only this attempt: another one may follow').check();
    await confirm(page, 'attempt');
    await stateShown(page, 'DECLINED');
    await factOf(page, 'Client').getByText('key:shop').waitFor();

    const own = await makePending(service, 'order-18', { ...shop.headers });
    const { page: shops } = await tabs.open(url, { secret: secretOf(shop), hash: `#/payment/${own}` });
    await press(shops, 'End this payment…');
    await confirm(shops);
    await shops.getByText('Attempt 1 is ended, and the order order-18 is closed.').waitFor();
    expect((await payOrder(service, 'order-18', 2, { ...shop.headers })).status).toBe(410);
  });
});
