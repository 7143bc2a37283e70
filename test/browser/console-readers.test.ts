import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { accessibilityProblems, consoles } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'EUR' };
const shop = credentialOf('shop', ['payments:write', 'payments:read', 'refunds:write']);
const rival = credentialOf('rival', ['payments:write']);
const operator = credentialOf('operator', ['operations', 'refunds:write']);
const finance = credentialOf('finance', ['payments:read:all']);
const CHANGES = /^(?:Refund|Send again|Close|End|Record|Resolve|Resend|Start|Stop)/;

const eventOf = (page: Page, title: string) =>
  page.locator('.timeline li').filter({ has: page.locator('strong', { hasText: title }) });

/** The pages follow rules A4 and A5: an operator sees what other clients did, and a payer does not. */
describeDeployments('readers of payments in the console', async (deployment) => {
  const keys = await requireKeys(shop, rival, operator, finance);
  const shared = shareProcessedService(deployment, {}, { ...keys.environment, PROCESSOR_DEDUP_SECONDS: '0' });
  const tabs = consoles();
  const open = async (credential: Credential, hash: string) =>
    (await tabs.open(shared().url, { secret: secretOf(credential), hash, locale: 'en-GB' })).page;
  const send = (path: string, { headers }: Credential, body: object = {}) =>
    sendJson(`${shared().url}${path}`, 'POST', body, headers);
  const newOrder = () => `order-${randomUUID()}`;

  async function paid(client: Credential, order = newOrder()) {
    const answer = await send(`/api/payment?reference=${order}`, client, MONEY);
    expect(answer.status, answer.text).toBe(200);
    return { order, key: String(answer.headers['idempotency-key']) };
  }

  /** The operator sees the event and who asked for it; the payer sees the event, and nobody. */
  async function expectAsked(hash: string, title: string) {
    const seen = await open(operator, hash);
    await eventOf(seen, title).getByText('for key:operator').waitFor();
    const own = await open(shop, hash);
    await eventOf(own, title).waitFor();
    expect(await own.getByText('key:operator').count()).toBe(0);
    return { seen, own };
  }

  test('an operator sees who closed an order, and its payer does not', async () => {
    const cancelled = await send(`/api/payment-cancellation?reference=${newOrder()}&client=key:shop`, operator);
    expect(cancelled.status, cancelled.text).toBe(200);
    await expectAsked(`#/payment/${String(cancelled.headers['idempotency-key'])}`, 'Closed');
  });

  test('an operator sees who gave money back and why, and its payer does not see who', async () => {
    const { order, key } = await paid(shop);
    const refund = { ...MONEY, reason: 'out of stock' };
    const refunded = await send(`/api/refund?reference=${order}&refund=line-1&client=key:shop`, operator, refund);
    expect(refunded.status, refunded.text).toBe(200);
    const hash = `#/payment/${key}?refund=${String(refunded.headers['idempay-refund-key'])}`;
    const { seen, own } = await expectAsked(hash, 'Given back');
    for (const page of [seen, own]) await page.getByText('out of stock').first().waitFor();
  });

  test('an operator sees who resolved a payment and why, and its payer does not see who', async () => {
    await shared().processor.behave({ refuseWith: 503 });
    const unknown = await send(`/api/payment?reference=${newOrder()}`, shop, MONEY);
    expect(unknown.status).toBe(504);
    const key = String(unknown.headers['idempotency-key']);
    const verdict = { outcome: 'declined', reason: 'not on the statement' };
    const resolved = await send(`/api/payments/${key}/resolution`, operator, verdict);
    await shared().processor.behave({ refuseWith: null });
    expect(resolved.status, resolved.text).toBe(200);
    const { seen, own } = await expectAsked(`#/payment/${key}`, 'Resolved by an operator');
    for (const page of [seen, own]) await page.getByText('not on the statement').first().waitFor();
    await takeScreenshots(seen, `payment-resolved-by-${deployment.name}`);
  });

  test('finance (payments:read:all) reads the payments of all clients, and is offered no change', async () => {
    const [one, other] = [await paid(shop), await paid(rival)];
    const refunded = await send(`/api/refund?reference=${one.order}&refund=line-1`, shop, {
      ...MONEY,
      amount: '10.00',
    });
    expect(refunded.status, refunded.text).toBe(200);
    const closed = await send(`/api/payment-cancellation?reference=${newOrder()}`, shop);
    expect(closed.status, closed.text).toBe(200);
    await shared().processor.behave({ refuseWith: 503 });
    const unknown = await send(`/api/payment?reference=${newOrder()}`, shop, MONEY);
    expect(unknown.status).toBe(504);

    const page = await open(finance, '#/payments?kind=all');
    for (const { order } of [one, other]) await page.getByRole('link', { name: `${order} · attempt 1` }).waitFor();
    for (const client of ['key:shop', 'key:rival']) await page.getByText(client, { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Export…' }).waitFor();
    await expectNoChange(page);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payments-finance-${deployment.name}`);
    const views = page.getByRole('navigation', { name: 'Views' }).getByRole('link');
    expect(await views.allTextContents()).toEqual(['Payments', 'Reconciliation', 'Service']);

    await page.goto(`${shared().url}/console#/payment/${one.key}`);
    await page.getByText('Refunded 10.00 of 100.50 EUR').waitFor();
    await page.locator('.facts').getByText('key:shop', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Details of the refund line-1' }).click();
    await page.locator('.refund-details').waitFor();
    await expectNoChange(page);
    await page.goto(`${shared().url}/console#/payment/${String(unknown.headers['idempotency-key'])}`);
    await page.locator('h1 .badge', { hasText: 'PROCESSING' }).waitFor();
    await expectNoChange(page);
    await page.goto(`${shared().url}/console#/payment/${String(closed.headers['idempotency-key'])}`);
    await page.locator('h1 .badge', { hasText: 'CANCELLED' }).waitFor();
    await eventOf(page, 'Closed').getByText('for key:shop').waitFor();
    await expectNoChange(page);
    await shared().processor.behave({ refuseWith: null });
  });
});

async function expectNoChange(page: Page): Promise<void> {
  const names = await page.getByRole('main').getByRole('button').allTextContents();
  expect(names.filter((name) => CHANGES.test(name))).toEqual([]);
}
