import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { pagePatience, startChromium } from '../../testkit/servers/chromium.js';

describe('the reference page, in Chromium', () => {
  const shared = shareService(embedded);
  let browser: Browser;
  let page: Page;
  /** The messages in the browser's console: among them each violation of the page's policy. */
  let complaints: string[];
  let asked: string[];

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());
  beforeEach(async () => {
    page = await browser.newPage();
    page.setDefaultTimeout(pagePatience());
    [complaints, asked] = [[], []];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(`${shared.url}/docs`);
    await page.waitForSelector('.opblock');
  });

  test.each([
    ['/docs', '/openapi.json'],
    ['/docs?all', '/openapi-all.json'],
  ])('%s shows every operation of %s, asks this service only, and breaks no policy', async (path, description) => {
    await page.goto(`${shared.url}${path}`);
    await page.waitForSelector('.opblock');
    const { paths } = (await ask(`${shared.url}${description}`)).json<{ paths: Record<string, object> }>();
    const operations = Object.values(paths).flatMap((item) =>
      Object.keys(item).filter((name) => name !== 'parameters'),
    );
    expect(await page.locator('.opblock').count()).toBe(operations.length);
    expect(asked.filter((url) => !url.startsWith(`${shared.url}/`) && !url.startsWith('data:'))).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test('sends a request that is tried out', async () => {
    const operation = page.locator('#operations-Payments-generateKey');
    await operation.locator('.opblock-summary').click();
    await operation.locator('.try-out__btn').click();
    await operation.locator('.execute').click();
    const shown = await operation.locator('.live-responses-table .highlight-code').first().textContent();
    const [key = ''] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(shown ?? '') ?? [];
    expect((await ask(`${shared.url}/api/payments/${key}`)).status).toBe(200);
    expect(complaints).toEqual([]);
  });
});
