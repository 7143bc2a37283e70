import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { accessibilityProblems, consoles, expectClean } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 60_000;
const MONEY = { amount: '100.50', currency: 'EUR' };
const shop = credentialOf('shop', ['payments:read', 'payments:write', 'refunds:write']);
const rival = credentialOf('rival', ['payments:write']);
const operator = credentialOf('operator', ['operations']);
const finance = credentialOf('finance', ['payments:read:all']);
/** The browser says so of the request before the sign-in, and of the refused page. */
const REFUSED = /the server responded with a status of 4(?:01|10)/;

const linkOf = (page: Page, order: string) => page.getByRole('link', { name: `${order} · attempt 1` });
const shownOrders = (page: Page) => page.locator('tbody .order').allInnerTexts();

describeDeployments('settlements in the console', async (deployment) => {
  const keys = await requireKeys(shop, rival, operator, finance);
  const shared = shareService(deployment, keys.environment);
  const tabs = consoles();
  const open = (credential: Credential, hash = '#/settlements') =>
    tabs.open(shared.url, { secret: secretOf(credential), hash, locale: 'en-GB' });

  async function pay({ headers }: Credential): Promise<string> {
    const order = `order-${randomUUID()}`;
    const answer = await sendJson(`${shared.url}/api/payment?reference=${order}`, 'POST', MONEY, headers);
    expect(answer.status, answer.text).toBe(200);
    return order;
  }

  test('appear by themselves, the newest first, and can be of one client', async () => {
    const tab = await open(operator);
    const { page } = tab;
    await page.getByRole('heading', { name: /^Nothing was settled in the last 5 min/ }).waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    const first = await pay(shop);
    await linkOf(page, first).waitFor();
    const second = await pay(rival);
    await linkOf(page, second).waitFor();
    const refunded = await sendJson(
      `${shared.url}/api/refund?reference=${first}&refund=line-2`,
      'POST',
      { amount: '12.50', currency: 'EUR', reason: 'returned' },
      shop.headers,
    );
    expect(refunded.status, refunded.text).toBe(200);
    await page.getByRole('link', { name: 'line-2' }).waitFor();
    expect(await shownOrders(page)).toEqual(['line-2', `${second} · attempt 1`, `${first} · attempt 1`]);
    await page.getByText('-12.50 EUR').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `settlements-${deployment.name}`);

    await page.getByLabel('Client').fill('key:rival');
    await page.getByRole('button', { name: 'Apply' }).click();
    await until('one settlement', DEADLINE_MS, async () => (await shownOrders(page)).length === 1);
    await linkOf(page, second).click();
    await page.locator('h1 .badge', { hasText: 'COMPLETED' }).waitFor();
    expectClean(tab, shared.url, REFUSED);
  });

  test('are their own for a client, and need another scope for finance', async () => {
    const [own, foreign] = [await pay(shop), await pay(rival)];
    const { page } = await open(shop);
    await page.getByText('These are your own settlements.').waitFor();
    await linkOf(page, own).waitFor();
    expect(await linkOf(page, foreign).count()).toBe(0);
    expect(await page.getByLabel('Client').count()).toBe(0);
    const { page: none } = await open(finance);
    await none.getByRole('heading', { name: 'Settlements needs another scope' }).waitFor();
  });

  test('lead to the payment of a refund from its own key', async () => {
    const order = await pay(shop);
    const { headers } = await sendJson(
      `${shared.url}/api/refund?reference=${order}&refund=line-1`,
      'POST',
      MONEY,
      shop.headers,
    );
    const { page } = await open(operator, `#/payment/${String(headers['idempay-refund-key'])}`);
    await page.getByText('Refunded 100.50 of 100.50 EUR').waitFor();
    await page.getByText(order, { exact: true }).first().waitFor();
  });
});

describe('the view of settlements after a failover', async () => {
  const keys = await requireKeys(shop);
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('begins again where the service says, and asks again after a problem', async () => {
    const paid = await sendJson(`${shared.url}/api/payment?reference=order-1`, 'POST', MONEY, shop.headers);
    expect(paid.status).toBe(200);
    const tab = await tabs.open(shared.url, { secret: secretOf(shop), hash: '#/service' });
    const { page } = tab;
    await page.getByRole('heading', { name: 'Your access' }).waitFor();
    let refusals = 0;
    await page.route('**/api/settlements?*after=*', async (route) => {
      if (refusals > 0 || route.request().url().includes('after=now')) return route.continue();
      refusals += 1;
      await route.fulfill({
        status: 410,
        headers: { 'Idempay-Settlements-From': new Date(0).toISOString(), 'Content-Type': 'application/json' },
        body: '{"error":"Another feed."}',
      });
    });
    await page.goto(`${shared.url}/console#/settlements`);
    await linkOf(page, 'order-1').waitFor();
    await until('the refusal', DEADLINE_MS, () => refusals === 1);
    const next = await sendJson(`${shared.url}/api/payment?reference=order-2`, 'POST', MONEY, shop.headers);
    expect(next.status).toBe(200);
    await linkOf(page, 'order-2').waitFor();
    expect(await shownOrders(page)).toEqual(['order-2 · attempt 1', 'order-1 · attempt 1']);
    expectClean(tab, shared.url, REFUSED);
  });
});
