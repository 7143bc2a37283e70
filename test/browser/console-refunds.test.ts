import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { accessibilityProblems, consoles, expectClean, factOf } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { type ProcessedService, shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { until } from '../../testkit/time/until.js';

const BODY = { amount: '100.50', currency: 'EUR' };
const REFUSED = /the server responded with a status of (?:4\d\d|50\d)/;
const DAY_MS = 86_400_000;
const UNCLEAR = { PROCESSOR_DEDUP_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '900', LOCK_TTL_SECONDS: '1' };

/** Recovery asks less and less often, so one of a few decisions finds the refund unchanged. */
const FINAL_MS = 60_000;

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, '2026-11-20'.length);

type Headers = Record<string, string>;
interface ShownRefund {
  readonly idempotencyKey: string;
  readonly state: string;
  readonly amount: string;
  readonly refund: { readonly name: string };
}

async function payOrder({ url }: Pick<ProcessedService, 'url'>, reference: string, headers: Headers = {}) {
  const answer = await sendJson(`${url}/api/payment?reference=${reference}`, 'POST', BODY, headers);
  expect(answer.status, answer.text).toBe(200);
  return String(answer.headers['idempotency-key']);
}

const refundsOf = async (url: string, key: string) => {
  const refunds = (await ask(`${url}/api/payments/${key}/refunds`)).json<ShownRefund[]>();
  return refunds.map(({ amount, state, refund: { name } }) => `${name} ${amount} ${state}`);
};

const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true }).click();
const dialogOf = (page: Page) => page.getByRole('dialog');
const rowOf = (page: Page, name: string) => page.locator('.refunds > li').filter({ hasText: name });
const rowIs = (page: Page, name: string, state: string) =>
  rowOf(page, name).locator('.badge', { hasText: state }).waitFor();
const refundedShown = (page: Page, text: string) => page.locator('.refunded').getByText(text).waitFor();

async function openForm(page: Page): Promise<void> {
  await press(page, 'Refund…');
  await dialogOf(page).getByLabel('Name of this refund').waitFor();
}

async function fill(page: Page, name: string, amount?: string, reason?: string): Promise<void> {
  await page.getByLabel('Name of this refund').fill(name);
  if (amount !== undefined) await page.getByLabel('Amount in EUR').fill(amount);
  if (reason !== undefined) await page.getByLabel('Reason').fill(reason);
}

/** From the form through the word that must be typed. */
async function confirm(page: Page, amount: string): Promise<void> {
  await dialogOf(page)
    .getByRole('button', { name: /^(?:Refund|Send again)…$/ })
    .click();
  const button = dialogOf(page).getByRole('button', { name: `Give back ${amount} EUR`, exact: true });
  expect(await button.isDisabled()).toBe(true);
  await page.getByLabel('To give it back, type').fill('Refund');
  await button.click();
}

/** Recovery may be faster: then the dialog closes by itself, and the page says the same. */
async function confirmUnlessFinished(page: Page, amount: string, name: string): Promise<void> {
  const outcome = page.getByText(
    new RegExp(`^${amount.replace('.', '\\.')} EUR (?:was|had been) given back as ${name}`),
  );
  await Promise.race([confirm(page, amount).catch(() => {}), outcome.waitFor()]);
  await outcome.waitFor();
}

describeDeployments('refunds in the console', (deployment) => {
  const shared = shareProcessedService(deployment, {}, { PROCESSOR_TIMEOUT_MS: '900' });
  const tabs = consoles();
  const open = (hash: string) => tabs.open(shared().url, { hash, locale: 'en-GB' });

  test('give back a part of a payment, and then what is left', async () => {
    const service = shared();
    const { url } = service;
    const key = await payOrder(service, 'order-17');
    const tab = await open(`#/payment/${key}`);
    const { page } = tab;
    await refundedShown(page, 'Nothing of 100.50 EUR was refunded.');
    await openForm(page);
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('');
    expect(await page.getByLabel('Amount in EUR').inputValue()).toBe('100.50');
    await dialogOf(page).getByRole('button', { name: 'Refund…' }).click();
    await page.getByText('Name the refund.').waitFor();
    await fill(page, 'line-2', '12,50', 'returned');
    await dialogOf(page).getByRole('button', { name: 'Refund…' }).click();
    await page.getByText('with a point before the decimals.').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'refund-form');
    await fill(page, 'line-2', '12.50');
    await dialogOf(page).getByRole('button', { name: 'Refund…' }).click();
    await dialogOf(page).getByText('goes back to its payer, as the refund line-2.').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'refund-confirm');
    await press(page, 'Back');
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('line-2');
    expect(await refundsOf(url, key)).toEqual([]);
    await confirm(page, '12.50');
    await page.getByText(/^12\.50 EUR was given back as line-2\. Transaction ID: TXN\d+$/).waitFor();
    await refundedShown(page, 'Refunded 12.50 of 100.50 EUR (88.00 EUR is left)');
    await rowIs(page, 'line-2', 'COMPLETED');
    const row = rowOf(page, 'line-2');
    await row.getByText('-12.50 EUR').waitFor();
    await row.getByText('returned').waitFor();
    await press(page, 'Details of the refund line-2');
    await row.locator('.timeline li', { hasText: 'Given back' }).waitFor();
    await row.getByText('a repeat with its name gets this outcome').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-refunded-${deployment.name}`);

    await openForm(page);
    await fill(page, 'line-2', '12.50');
    await confirm(page, '12.50');
    await page.getByText('12.50 EUR had been given back as line-2 before, and nothing was given back again.').waitFor();
    await openForm(page);
    expect(await page.getByLabel('Amount in EUR').inputValue()).toBe('88.00');
    await fill(page, 'line-3', '88.01');
    await confirm(page, '88.01');
    await dialogOf(page).getByText('The payment has 88.00 EUR left to give back').waitFor();
    await takeScreenshots(page, 'refund-too-large');
    await press(page, 'Back');
    await fill(page, 'line-3', '88.00');
    await confirm(page, '88.00');
    await refundedShown(page, 'Refunded 100.50 of 100.50 EUR (nothing is left)');
    expect(await page.getByRole('button', { name: 'Refund…' }).count()).toBe(0);
    expect(await refundsOf(url, key)).toEqual(['line-2 12.50 COMPLETED', 'line-3 88.00 COMPLETED']);
    expectClean(tab, url, REFUSED);
  });

  test('keep their name and amount after an unclear answer', async () => {
    const service = shared();
    const { url, processor } = service;
    const key = await payOrder(service, 'order-18');
    await processor.behave({ refuseWith: 503 });
    const { page } = await open(`#/payment/${key}`);
    await openForm(page);
    await fill(page, 'line-1', '10.00', 'damaged');
    await confirm(page, '10.00');
    await dialogOf(page).getByText('so it is not known yet if the money was given back').waitFor();
    expect(await dialogOf(page).textContent()).toContain('Another name would be another refund.');
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'refund-unclear');
    await press(page, 'Back');
    await dialogOf(page).getByText('Its name and its amount stay as they are').waitFor();
    await press(page, 'Close');
    await press(page, 'Send the refund again…');
    for (const [label, value] of [
      ['Name of this refund', 'line-1'],
      ['Amount in EUR', '10.00'],
      ['Reason', 'damaged'],
    ] as const) {
      expect(await page.getByLabel(label).inputValue()).toBe(value);
      expect(await page.getByLabel(label).getAttribute('readonly')).not.toBeNull();
    }
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'refund-form-unclear');
    await refundedShown(page, 'Refunded 10.00 of 100.50 EUR (90.50 EUR is left)');
    await rowIs(page, 'line-1', 'PROCESSING');
    await processor.behave({ refuseWith: null });
    await confirmUnlessFinished(page, '10.00', 'line-1');
    await rowIs(page, 'line-1', 'COMPLETED');
    expect(await refundsOf(url, key)).toEqual(['line-1 10.00 COMPLETED']);
  });

  test('of which the answer was lost are found, and given back once', async () => {
    const service = shared();
    const { url } = service;
    const key = await payOrder(service, 'order-19');
    const { page } = await open(`#/payment/${key}`);
    await page.route('**/api/refund?*', async (route) => {
      await route.fetch();
      await route.abort();
    });
    await openForm(page);
    await fill(page, 'line-1', '10.00');
    await confirm(page, '10.00');
    // The list of refunds has it, so that the page knows its outcome.
    await page.getByText(/^10\.00 EUR was given back as line-1\. Transaction ID: TXN\d+$/).waitFor();
    await dialogOf(page).waitFor({ state: 'detached' });
    await openForm(page);
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('');
    expect(await refundsOf(url, key)).toEqual(['line-1 10.00 COMPLETED']);
  });

  test('that the processor declines leave all of the payment', async () => {
    const service = shared();
    const { url, processor } = service;
    const key = await payOrder(service, 'order-20');
    await processor.behave({ declineRate: 1 });
    const tab = await open(`#/payment/${key}`);
    const { page } = tab;
    await openForm(page);
    await fill(page, 'line-1', '10.00');
    await confirm(page, '10.00');
    await dialogOf(page).getByText('Refund declined: ').waitFor();
    await processor.behave({ declineRate: 0 });
    expect(await dialogOf(page).textContent()).toContain('This is final.');
    await takeScreenshots(page, 'refund-declined');
    await press(page, 'Back');
    // The answer was clear, so that another refund can be made.
    expect(await page.getByLabel('Name of this refund').getAttribute('readonly')).toBeNull();
    await press(page, 'Back');
    await refundedShown(page, 'Refunded 0.00 of 100.50 EUR (100.50 EUR is left)');
    await rowIs(page, 'line-1', 'DECLINED');
    expectClean(tab, url, REFUSED);
  });

  test('that take time are followed, and sent again by their own name', async () => {
    const service = shared();
    const { url, processor } = service;
    const key = await payOrder(service, 'order-21');
    await processor.behave({ refundPendingRate: 1 });
    const { page } = await open(`#/payment/${key}`);
    await openForm(page);
    await fill(page, 'line-1', '10.00');
    await confirm(page, '10.00');
    await page.getByText('The processor has accepted the refund line-1 of 10.00 EUR, and takes time.').waitFor();
    await processor.behave({ refundPendingRate: 0 });
    await rowIs(page, 'line-1', 'PROCESSING');
    const row = rowOf(page, 'line-1');
    await row.getByText(/^waiting until /).waitFor();
    await press(page, 'Details of the refund line-1');
    await row.locator('.timeline li', { hasText: 'Waiting for the processor' }).waitFor();
    await row.getByText('The processor has accepted this refund, and takes time').waitFor();
    await takeScreenshots(page, `refund-pending-${deployment.name}`);
    await openForm(page);
    await dialogOf(page).getByText('Another refund is under way: line-1 (10.00 EUR).').waitFor();
    await press(page, 'Back');
    await press(page, 'Send the refund line-1 again…');
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('line-1');
    await press(page, 'Back');
    // Nothing was sent again, so that the form is free for another refund.
    await openForm(page);
    expect(await page.getByLabel('Name of this refund').inputValue()).toBe('');
    await press(page, 'Back');
    await press(page, 'Send the refund line-1 again…');
    const [refund] = (await ask(`${url}/api/payments/${key}/refunds`)).json<ShownRefund[]>();
    const confirmed = await ask(`${processor.url}/pending/${refund?.idempotencyKey}/confirm`, { method: 'POST' });
    expect(confirmed.status, confirmed.text).toBe(200);
    await confirmUnlessFinished(page, '10.00', 'line-1');
    await rowIs(page, 'line-1', 'COMPLETED');
  });

  test('are listed and exported apart from payments, or with them', async () => {
    const service = shared();
    const { url } = service;
    const key = await payOrder(service, 'order-22');
    const body = { amount: '7.25', currency: 'EUR', reason: 'too small' };
    const made = await sendJson(`${url}/api/refund?refund=size-1`, 'POST', body, { 'Idempotency-Key': key });
    expect(made.status, made.text).toBe(200);
    const tab = await open('#/payments');
    const { page } = tab;
    const payment = page.getByRole('link', { name: 'order-22 · attempt 1' });
    const refund = page.getByRole('row').filter({ hasText: 'size-1' });
    await payment.waitFor();
    expect(await refund.count()).toBe(0);
    await page.getByLabel('Kind').selectOption('both');
    await refund.waitFor();
    await payment.waitFor();
    await page.getByLabel('Kind').selectOption('refunds');
    await payment.waitFor({ state: 'detached' });
    expect(new URL(page.url()).hash).toBe('#/payments?kind=refund');
    await page.getByRole('region', { name: 'Refunds, newest first' }).waitFor();
    const words = await refund.textContent();
    for (const word of ['refund', '-7.25 EUR', 'too small', key]) expect(words).toContain(word);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payments-refunds-${deployment.name}`);

    await press(page, 'Export…');
    const dialog = dialogOf(page);
    // The refund may have been made before midnight.
    await dialog.getByLabel('First day').fill(dayOf(Date.now() - DAY_MS));
    await dialog.getByLabel('Last day, included').fill(dayOf(Date.now()));
    await dialog.getByLabel('Kind').selectOption('refunds');
    await dialog.getByLabel('File').selectOption('ndjson');
    await dialog.getByRole('button', { name: 'Export', exact: true }).click();
    const link = dialog.getByRole('link', { name: 'Download the file' });
    await link.waitFor();
    const [file] = await Promise.all([page.waitForEvent('download'), link.click()]);
    expect(file.suggestedFilename()).toMatch(/^refunds-.*\.ndjson$/);
    const lines = (await readFile(await file.path(), 'utf8')).trim().split('\n');
    const names = lines.map((line) => (JSON.parse(line) as ShownRefund).refund.name);
    expect(names).toContain('size-1');
    await press(page, 'Close');

    await page.getByRole('link', { name: 'size-1' }).click();
    await refundedShown(page, 'Refunded 7.25 of 100.50 EUR (93.25 EUR is left)');
    expect(await page.getByRole('button', { name: 'Details of the refund size-1' }).getAttribute('aria-expanded')).toBe(
      'true',
    );
    expectClean(tab, url);
  });
});

describe('a refund whose outcome stays unknown', () => {
  const shared = shareProcessedService(embedded, {}, UNCLEAR);
  const tabs = consoles();

  test('is resolved by an operator', async () => {
    const service = shared();
    const { url, processor } = service;
    const key = await payOrder(service, 'order-17');
    await processor.behave({ refuseWith: 503 });
    const body = { amount: '7.25', currency: 'EUR' };
    const made = await sendJson(`${url}/api/refund?refund=line-1`, 'POST', body, { 'Idempotency-Key': key });
    expect(made.status, made.text).toBe(504);
    const { page } = await tabs.open(url, { hash: `#/payment/${key}`, locale: 'en-GB' });
    await press(page, 'Details of the refund line-1');
    const row = rowOf(page, 'line-1');
    await row.getByText('The processor gave no answer that decides.').waitFor();
    const resolve = row.getByRole('button', { name: 'Resolve…' });
    await expect.poll(() => resolve.isEnabled()).toBe(true);
    await row.getByLabel('Declined: no money was given back').check();
    await row.getByLabel('How it was found out').fill('on the bank statement');
    await resolve.click();
    await dialogOf(page).getByText('the same money can be refunded again').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'refund-resolve');
    await press(page, 'Record 7.25 EUR as declined');
    const recorded = page.getByText('Recorded as declined.');
    const changed = page.getByText('Nothing was recorded: the refund changed while you decided.');
    // Recovery may have looked the refund up meanwhile: then the page asks for another decision.
    await until('the resolution to be recorded', FINAL_MS, async () => {
      await recorded.or(changed).first().waitFor();
      if (await recorded.isVisible()) return true;
      await press(page, 'Dismiss');
      await row.getByLabel('Declined: no money was given back').check();
      await row.getByLabel('How it was found out').fill('on the bank statement');
      await resolve.click();
      await press(page, 'Record 7.25 EUR as declined');
      return false;
    });
    await rowIs(page, 'line-1', 'DECLINED');
    await factOf(page, 'Resolution').getByText('on the bank statement').waitFor();
    await refundedShown(page, 'Refunded 0.00 of 100.50 EUR (100.50 EUR is left)');
  });
});

describe('refunds in the console with AUTH=required', async () => {
  const operator = credentialOf('operator', ['operations', 'refunds:write']);
  const shop = credentialOf('shop', ['payments:read', 'payments:write']);
  const keys = await requireKeys(operator, shop);
  const shared = shareProcessedService(embedded, {}, keys.environment);
  const tabs = consoles();

  test('are made by a credential with refunds:write, and seen by the client', async () => {
    const service = shared();
    const { url } = service;
    const key = await payOrder(service, 'order-17', { ...shop.headers });
    const { page: own } = await tabs.open(url, { secret: secretOf(shop), hash: `#/payment/${key}` });
    await own.locator('h1 .badge', { hasText: 'COMPLETED' }).waitFor();
    expect(await own.getByRole('heading', { name: 'Refunds' }).count()).toBe(0);

    const { page } = await tabs.open(url, { secret: secretOf(operator), hash: `#/payment/${key}` });
    await openForm(page);
    await fill(page, 'line-1', '10.00');
    await confirm(page, '10.00');
    await rowIs(page, 'line-1', 'COMPLETED');

    await press(own, 'Refresh');
    await rowIs(own, 'line-1', 'COMPLETED');
    expect(await own.getByRole('button', { name: 'Refund…' }).count()).toBe(0);
  });
});
