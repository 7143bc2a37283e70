import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { scrape } from '../../testkit/client/metrics.js';
import { accessibilityProblems, consoles, expectClean, factOf } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { answerWith, startWebhookReceiver, TAKE, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 60_000;
const MONEY = { amount: '100.50', currency: 'EUR' };
const MOST_SET_ASIDE = 1_000;
const GONE = 410;

const badgeIs = (page: Page, state: string) => page.locator('h2 .badge').getByText(state, { exact: true }).waitFor();
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** From the button through the word that must be typed. */
async function confirm(page: Page, act: 'Start' | 'Stop' | 'Resend', label: string): Promise<void> {
  const button = page.getByRole('dialog').getByRole('button', { name: act, exact: true });
  await button.waitFor();
  expect(await button.isDisabled()).toBe(true);
  await page.getByLabel(`${label}, type`).fill(act.toLowerCase());
  await button.click();
}

async function paid(url: string): Promise<string> {
  const answer = await sendJson(`${url}/api/payment?reference=order-${randomUUID()}`, 'POST', MONEY);
  expect(answer.status, answer.text).toBe(200);
  return String(answer.headers['idempotency-key']);
}

/** A receiver, its file, and what ends them. */
async function givenEndpoint() {
  const receiver = await startWebhookReceiver();
  const file = await writeEndpointFile([receiver.endpoint]);
  onTestFinished(async () => {
    await receiver.close();
    await file.remove();
  });
  return { receiver, file, settings: { WEBHOOKS_FILE: file.path } };
}

const isListed = (url: string) =>
  until('the endpoint', DEADLINE_MS, async () => {
    const { webhooks } = (await ask(`${url}/api/webhooks`)).json<{ webhooks: unknown[] }>();
    return webhooks.length === 1;
  });

describeDeployments('endpoints in the console', (deployment) => {
  const tabs = consoles();

  async function given() {
    const { settings, ...endpoint } = await givenEndpoint();
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve(settings);
    await isListed(url);
    const tab = await tabs.open(url, { hash: '#/webhooks', locale: 'en-GB' });
    return { ...endpoint, url, tab, page: tab.page };
  }

  test('an endpoint that its receiver stopped is started, and stopped by hand', async () => {
    const { receiver, url, tab, page } = await given();
    await badgeIs(page, 'delivering');
    expect(await factOf(page, 'Receiver').textContent()).toBe(new URL(receiver.endpoint.url).origin);
    expect(await factOf(page, 'Settlements').textContent()).toBe('of all clients');
    expect(await factOf(page, 'Behind').textContent()).toBe('by none');
    expect(await factOf(page, 'Set aside').textContent()).toBe('none');
    expect(await page.getByRole('button', { name: 'Resend all…' }).count()).toBe(0);

    receiver.answer(answerWith(GONE));
    const key = await paid(url);
    await badgeIs(page, 'stopped');
    await page.getByText('Its receiver answered 410: it wants nothing more.').waitFor();
    await factOf(page, 'Behind')
      .getByText(/^by one settlement, for /)
      .waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `webhooks-stopped-${deployment.name}`);

    receiver.answer(TAKE);
    await press(page, 'Start…');
    await page.getByText('If its receiver answers 410 again, it is stopped again.').waitFor();
    await confirm(page, 'Start', 'To start it');
    await page.getByText('shop is served again, from where it was stopped.').waitFor();
    await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
    await badgeIs(page, 'delivering');
    await factOf(page, 'Behind').getByText('by none').waitFor();
    await press(page, 'Dismiss');

    await press(page, 'Stop…');
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'webhooks-stop');
    await confirm(page, 'Stop', 'To stop it');
    await page.getByText('shop is stopped. It gets nothing until it is started.').waitFor();
    await badgeIs(page, 'stopped');
    await page.getByText('An operator stopped it. Once started, it goes on where it was.').waitFor();
    expectClean(tab, url);
  });

  test('an endpoint whose receiver refuses everything is behind, and one that is in no file is not served', async () => {
    const { receiver, file, url, page } = await given();
    receiver.answer(answerWith(500));
    await paid(url);
    await badgeIs(page, 'behind');
    await page.getByText('It is tried again at least every five minutes.').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `webhooks-behind-${deployment.name}`);
    await file.change([]);
    await badgeIs(page, 'not served');
    expect(await factOf(page, 'Behind').textContent()).toBe('not counted');
  });
});

describe('what is set aside, in the console', () => {
  const tabs = consoles();

  /** Rows as an endpoint leaves them after more than a minute of refusals; it is served meanwhile. */
  async function given() {
    const { receiver, settings } = await givenEndpoint();
    const stores = await openTestStores();
    const { url } = await stores.serve(settings);
    await isListed(url);
    const setAside = (key: string, count = 1) =>
      stores.sql(
        `INSERT INTO idempay.webhook_set_aside
         SELECT 'shop', CASE WHEN row = 1 THEN $1::uuid ELSE gen_random_uuid() END, 'it answered 500', now(), NULL
         FROM generate_series(1, $2::integer) AS row`,
        [key, count],
      );
    return { receiver, url, setAside };
  }

  test('is listed with its cause and a link to its payment, and is sent again, one or all', async () => {
    const { receiver, url, setAside } = await given();
    const key = await paid(url);
    await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
    const tries = () => receiver.received.filter(({ id }) => id === `${key}.completed`).length;
    const before = tries();
    receiver.answer(answerWith(503));
    await setAside(key);

    const tab = await tabs.open(url, { hash: '#/webhooks', locale: 'en-GB' });
    const { page } = tab;
    const row = page.locator('tbody tr').filter({ hasText: key });
    await row.getByText('it answered 500').waitFor();
    await row.getByText('only by hand').waitFor();
    expect(await factOf(page, 'Set aside').textContent()).toBe('1');
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'webhooks-set-aside');

    await press(page, `Resend ${key}…`);
    await page.getByRole('dialog').getByText('is tried again within seconds.').waitFor();
    await takeScreenshots(page, 'webhooks-resend');
    await confirm(page, 'Resend', 'To resend');
    await page.getByText('One settlement of shop will be tried again within seconds.').waitFor();
    await until('another try', DEADLINE_MS, () => tries() > before);
    // It was refused again, and is tried once an hour from now on.
    await row.getByText('it answered 503').waitFor();
    await row.locator('td:nth-child(4) time').waitFor();

    receiver.answer(TAKE);
    await press(page, 'Resend all…');
    await page.getByRole('dialog').getByText('Everything that is set aside (1) is tried again').waitFor();
    await confirm(page, 'Resend', 'To resend');
    await factOf(page, 'Set aside').getByText('none').waitFor();
    expect(tries()).toBeGreaterThan(before + 1);
    expect(await page.locator('tbody tr').count()).toBe(0);
    expectClean(tab, url);
  });

  test('leads to the payment that it is about', async () => {
    const { receiver, url, setAside } = await given();
    const key = await paid(url);
    await until('the message', DEADLINE_MS, () => receiver.idsTaken().has(`${key}.completed`));
    await setAside(key);
    const { page } = await tabs.open(url, { hash: '#/webhooks' });
    await page.getByRole('link', { name: key }).click();
    await page.locator('h1 .badge', { hasText: 'COMPLETED' }).waitFor();
  });

  test('lets the endpoint stand still when it is full, and the page says so', async () => {
    const { receiver, url, setAside } = await given();
    receiver.answer(answerWith(500));
    await setAside(randomUUID(), MOST_SET_ASIDE);
    await paid(url);
    const { page } = await tabs.open(url, { hash: '#/webhooks', locale: 'en-GB' });
    await badgeIs(page, 'stands still');
    await page.getByText('1,000 settlements are set aside, so it gets no others.').waitFor();
    await page.getByRole('button', { name: 'Show all 1,000' }).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(20);
    await takeScreenshots(page, 'webhooks-stand-still');
    await press(page, 'Show all 1,000');
    await until('all of them', DEADLINE_MS, async () => (await page.locator('tbody tr').count()) === MOST_SET_ASIDE);
    const samples = () => scrape(url);
    await until('the metric of the alert', DEADLINE_MS, async () =>
      (await samples()).some(({ name, value }) => name === 'idempay_webhook_set_aside' && value === MOST_SET_ASIDE),
    );
  });
});

describe('the view of webhooks with AUTH=required', async () => {
  const operator = credentialOf('operator', ['operations']);
  const shop = credentialOf('shop', ['payments:read', 'payments:write']);
  const keys = await requireKeys(operator, shop);
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('says which scope it needs, and that there are no endpoints', async () => {
    const { page, asked } = await tabs.open(shared.url, { secret: secretOf(shop), hash: '#/webhooks' });
    await page.getByRole('heading', { name: 'Webhooks needs another scope' }).waitFor();
    await page.getByText('Your credential needs the scope operations.').waitFor();
    expect(await page.getByRole('link', { name: 'Webhooks' }).count()).toBe(0);
    expect(asked.filter((address) => address.includes('/api/webhooks'))).toEqual([]);

    const { page: empty } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/webhooks' });
    await empty.getByRole('heading', { name: 'No endpoint is told of settlements' }).waitFor();
    expect(await accessibilityProblems(empty)).toEqual([]);
    await takeScreenshots(empty, 'webhooks-empty');
  });

  test('shows a problem, keeps what it had, and asks again', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/service' });
    await page.getByRole('heading', { name: 'Your access' }).waitFor();
    await page.route('**/api/webhooks', (route) => route.abort());
    await page.getByRole('link', { name: 'Webhooks' }).click();
    await page.getByRole('alert').getByText('The service cannot be reached.').waitFor();
    await page.unroute('**/api/webhooks');
    await page.getByRole('heading', { name: 'No endpoint is told of settlements' }).waitFor();
  });
});
