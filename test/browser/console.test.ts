import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { accessibilityProblems, consoles, expectClean } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

/** Issue 14: for everything that the page may load, compressed. */
const MOST_BYTES = 120_000;
/** The browser says of each refused request that it failed. */
const REFUSED = /the server responded with a status of 401/;

const operator = credentialOf('operator', ['operations', 'metrics']);
const reader = credentialOf('reader', ['transactions:read']);
const keys = await requireKeys(operator, reader);

describeDeployments('the console without AUTH', (deployment) => {
  const shared = shareService(deployment);
  const tabs = consoles();

  test('asks nobody to sign in, and shows which service it is', async () => {
    const tab = await tabs.open(shared.url, { hash: '#/service' });
    await tab.page.getByRole('heading', { name: 'This process' }).waitFor();
    const { instance } = (await ask(`${shared.url}/api/session`)).json<{ instance: string }>();
    await tab.page.getByText(instance, { exact: true }).waitFor();
    await tab.page.getByText('nobody signs in here').waitFor();
    await tab.page.getByText('ready', { exact: true }).waitFor();
    expect(await tab.page.getByRole('button', { name: 'Sign out' }).count()).toBe(0);
    expect(await accessibilityProblems(tab.page)).toEqual([]);
    await takeScreenshots(tab.page, `service-${deployment.name}`);
    expectClean(tab, shared.url);
  });
});

describe('the console after an update of the service', () => {
  const shared = shareService(embedded);
  const tabs = consoles();

  test('says to reload where a part has another name now', async () => {
    const { page } = await tabs.open(shared.url, { hash: '#/service' });
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.route('**/console/live-view-*', (route) => route.fulfill({ status: 404, body: '' }));
    await page.getByRole('link', { name: 'Live' }).click();
    await page.getByRole('alert').getByText('The service may have been updated: reload the page.').waitFor();
    await page.unroute('**/console/live-view-*');
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.getByRole('heading', { name: 'Live' }).waitFor();
  });
});

describe('the console with AUTH=required', () => {
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('refuses a credential in a sentence, and takes another one', async () => {
    const tab = await tabs.open(shared.url, { hash: '#/service' });
    await tab.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await accessibilityProblems(tab.page)).toEqual([]);
    await takeScreenshots(tab.page, 'sign-in');

    await tab.signIn('');
    await tab.page.getByText('Enter an API key or a token.').waitFor();
    await tab.signIn('idem_wrong');
    await tab.page.getByText('The service does not take this credential.').waitFor();
    await tab.signIn(secretOf(operator));
    await tab.page.getByRole('heading', { name: 'This process' }).waitFor();
    await tab.page.getByText('key:operator').first().waitFor();
    expect(await accessibilityProblems(tab.page)).toEqual([]);
    expectClean(tab, shared.url, REFUSED);
  });

  /** Everything that the browser keeps for the page longer than its tab, and in its tab. */
  const keptBy = (page: Page) =>
    page.evaluate(async () => ({
      longer: [
        localStorage.length,
        document.cookie,
        (await indexedDB.databases()).length,
        (await caches.keys()).length,
        location.href,
      ],
      inTab: Object.entries({ ...sessionStorage }),
    }));

  test('keeps the credential for the tab, over a reload and a shared link, and for no other tab', async () => {
    const { page, asked } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/service' });
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.goto('about:blank');
    await page.goto(`${shared.url}/console#/payments?reference=order-17`);
    await page.getByRole('heading', { name: 'Payments' }).waitFor();
    expect(await keptBy(page)).toEqual({
      longer: [0, '', 0, 0, `${shared.url}/console#/payments?reference=order-17`],
      inTab: [['idempay credential /', secretOf(operator)]],
    });
    expect(asked.some((address) => address.includes(secretOf(operator)))).toBe(false);
    const other = await page.context().newPage();
    await other.goto(`${shared.url}/console#/service`);
    await other.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  test('keeps no credential that the service refuses', async () => {
    const { page, signIn } = await tabs.open(shared.url, { hash: '#/service' });
    await signIn('idem_wrong');
    await page.getByText('The service does not take this credential.').waitFor();
    expect((await keptBy(page)).inTab).toEqual([]);
  });

  test('keeps the credential while the service cannot be reached', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/service' });
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.route('**/api/session', (route) => route.abort());
    await page.reload();
    await page.getByRole('alert').getByText('The service cannot be reached.').waitFor();
    await page.unroute('**/api/session');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'This process' }).waitFor();
  });

  test('shows what the scopes allow, and asks for nothing else', async () => {
    const { page, asked } = await tabs.open(shared.url, { secret: secretOf(reader), hash: '#/service' });
    await page.getByRole('heading', { name: 'Your access' }).waitFor();
    await page.locator('dd').getByText('transactions:read').waitFor();
    expect(await page.getByRole('heading', { name: 'Key-value store' }).count()).toBe(0);
    expect(asked.filter((address) => address.includes('/stats'))).toEqual([]);
  });

  test('opens at the first view that the scopes allow, and offers only those', async () => {
    const offered = async (credential: typeof operator) => {
      const { page } = await tabs.open(shared.url, { secret: secretOf(credential) });
      const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link');
      await links.first().waitFor();
      const current = page.locator('nav [aria-current=page]');
      return { all: await links.allTextContents(), current: await current.textContent() };
    };
    const forOperator = await offered(operator);
    expect(forOperator.current).toBe('Live');
    expect(forOperator.all).toEqual(expect.arrayContaining(['Live', 'Service']));
    const forReader = await offered(reader);
    expect(forReader.current).not.toBe('Live');
    expect(forReader.all).toContain('Service');
    expect(forReader.all).not.toContain('Live');
  });

  test('says that there is no such view', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(reader), hash: '#/<b>nowhere</b>' });
    await page.getByRole('heading', { name: 'There is no view “<b>nowhere<”' }).waitFor();
    await page.getByRole('link', { name: /^Open / }).click();
    await page.getByRole('heading', { name: 'Transactions', exact: true }).waitFor();
  });

  test('signs out, and forgets the credential', async () => {
    const { page, asked } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/service' });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await page.getByLabel('API key or token').inputValue()).toBe('');
    expect((await keptBy(page)).inTab).toEqual([]);
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(asked.some((address) => address.includes(secretOf(operator)))).toBe(false);
  });

  test('goes back to the sign-in when the credential is revoked, and then to the same view', async () => {
    const leaving = credentialOf('leaving', ['operations']);
    const sessionOf = async ({ headers }: typeof leaving) =>
      (await ask(`${shared.url}/api/session`, { headers })).status;
    await keys.write(operator, reader, leaving);
    await until('the key is taken', 10_000, async () => (await sessionOf(leaving)) === 200);
    const { page, signIn } = await tabs.open(shared.url, { secret: secretOf(leaving), hash: '#/service?kept=yes' });
    await page.getByRole('heading', { name: 'Key-value store' }).waitFor();
    await keys.write(operator, reader);
    await until('the key is refused', 10_000, async () => (await sessionOf(leaving)) === 401);
    await page.getByRole('button', { name: 'Ask again' }).click();
    await page.getByText('The service no longer takes your credential: sign in again.').waitFor();
    expect((await keptBy(page)).inTab).toEqual([]);
    await signIn(secretOf(operator));
    await page.getByRole('heading', { name: 'Key-value store' }).waitFor();
    expect(page.url()).toBe(`${shared.url}/console#/service?kept=yes`);
  });

  test('forgets a kept credential that was revoked before a reload', async () => {
    const leaving = credentialOf('leaving-too', ['operations']);
    await keys.write(operator, reader, leaving);
    const status = async () => (await ask(`${shared.url}/api/session`, { headers: leaving.headers })).status;
    await until('the key is taken', 10_000, async () => (await status()) === 200);
    const { page } = await tabs.open(shared.url, { secret: secretOf(leaving), hash: '#/try-it' });
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    await keys.write(operator, reader);
    await until('the key is refused', 10_000, async () => (await status()) === 401);
    await page.reload();
    await page.getByText('The service no longer takes your credential: sign in again.').waitFor();
    expect((await keptBy(page)).inTab).toEqual([]);
  });

  test('follows the system or its switch, and is used by keyboard alone', async () => {
    const { page } = await tabs.open(shared.url, { secret: secretOf(operator), hash: '#/service' });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await ground();
    expect(dark).not.toBe(light);
    const switched = page.getByRole('button', { name: /^Theme/ });
    await switched.focus();
    await page.keyboard.press('Enter');
    await expect.poll(ground).toBe(light);
    await page.keyboard.press('Enter');
    await expect.poll(ground).toBe(dark);
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Sign out');
  });
});

describe('the files of the console', () => {
  const shared = shareService(embedded);
  const tabs = consoles();

  test('are all loaded in less than 120 kB', async () => {
    const names = new Set<string>();
    const queue = ['console'];
    let bytes = 0;
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
      const answer = await fetchCompressed(`${shared.url}/${path}`);
      bytes += answer.bytes;
      // All files of the console that a file names: also the ones that only a view loads.
      for (const [, name = ''] of answer.text.matchAll(/([\w-]+-[\w-]{8}\.(?:js|css|svg))/g)) {
        if (names.has(name)) continue;
        names.add(name);
        queue.push(`console/${name}`);
      }
    }
    expect(names.size).toBeGreaterThan(3);
    expect(bytes).toBeLessThan(MOST_BYTES);
    console.log(`the console: ${names.size + 1} files, ${bytes} bytes compressed`);
  });

  test('are found behind a path that ends with a slash', async () => {
    const { page } = await tabs.open(shared.url, { hash: '#/service' });
    await page.goto(`${shared.url}/console/#/service`);
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    expect(page.url()).toBe(`${shared.url}/console#/service`);
  });
});

async function fetchCompressed(url: string): Promise<{ bytes: number; text: string }> {
  const { status, headers, text } = await fetch(url).then(async (answer) => ({
    status: answer.status,
    headers: answer.headers,
    text: await answer.text(),
  }));
  expect([url, status, headers.get('content-encoding')]).toEqual([url, 200, 'gzip']);
  return { bytes: Number(headers.get('content-length')), text };
}
