import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles, expectClean } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { crashAt } from '../../testkit/processes/crash-points.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { pause, until } from '../../testkit/time/until.js';

const LONG_GAP_MS = 1_500;

const stateShown = (page: Page, state: string) => page.locator('h1 .badge', { hasText: state }).waitFor();
const eventsOf = (page: Page) => page.locator('.timeline li strong').allInnerTexts();

describeDeployments('the life of a payment', (deployment) => {
  const processed = shareProcessedService(deployment);
  const tabs = consoles();
  const open = (key: string) => tabs.open(processed().url, { hash: `#/payment/${key}`, locale: 'en-GB' });

  test('shows what is known of it and its life', async () => {
    const { url } = processed();
    const key = await generateKey(url);
    await pay(url, key, { amount: '1234567.80', currency: 'EUR' });
    const { transactionId } = await shownPaymentOf(url, key);
    const tab = await open(key);
    const { page } = tab;
    await stateShown(page, 'COMPLETED');
    // The form that gives it back says it too.
    await page.getByText('1 234 567.80 EUR').first().waitFor();
    await page.getByText(transactionId ?? '').waitFor();
    await page.getByRole('heading', { name: 'Timeline' }).waitFor();
    expect(await eventsOf(page)).toEqual(['Key issued', 'Claimed', 'Charged', 'Settled', 'Next']);
    const { instance } = (await ask(`${url}/api/session`)).json<{ instance: string }>();
    expect(await page.locator('.timeline code').first().getAttribute('title')).toBe(`Process ${instance}`);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-${deployment.name}`);
    // Final: it is not asked for again.
    const asked = tab.asked.length;
    await page.waitForTimeout(2_500);
    expect(tab.asked.length).toBe(asked);
    expectClean(tab, url);
  });
});

describeDeployments('a payment that is recovered after kill -9', (deployment) => {
  const tabs = consoles();

  test('names both processes in its timeline', async () => {
    const [stores, processor] = await Promise.all([deployment.open(), serveReferenceProcessor()]);
    try {
      const settings = { PROCESSOR_URL: processor.url, LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '900' };
      const first = await stores.start({ ...settings, ...crashAt('after-charge:1') });
      const instanceOf = async (url: string) => (await ask(`${url}/api/session`)).json<{ instance: string }>().instance;
      const dead = await instanceOf(first.url);
      const key = await generateKey(first.url);
      await expect(pay(first.url, key)).rejects.toThrow();
      expect((await first.ended).signal).toBe('SIGKILL');

      // A start takes little time, and only a long gap is shown.
      await pause(LONG_GAP_MS);
      const second = await stores.start(settings);
      const tab = await tabs.open(second.url, { hash: `#/payment/${key}`, locale: 'en-GB' });
      const { page } = tab;
      await stateShown(page, 'COMPLETED');
      const alive = await instanceOf(second.url);
      expect(await processor.chargesOf(key)).toHaveLength(1);
      await until('the last event', 10_000, async () => (await eventsOf(page)).includes('Settled'));
      const events = await eventsOf(page);
      expect(events).toEqual(['Key issued', 'Claimed', 'Taken over', 'Looked up at the processor', 'Settled', 'Next']);
      const processes = await page
        .locator('.timeline code')
        .evaluateAll((codes) => codes.map((code) => code.getAttribute('title')));
      expect(new Set(processes)).toEqual(new Set([`Process ${dead}`, `Process ${alive}`]));
      await page
        .getByText(/\d+ secs? later/)
        .first()
        .waitFor();
      expect(await accessibilityProblems(page)).toEqual([]);
      await takeScreenshots(page, `payment-recovered-${deployment.name}`);
      expectClean(tab, second.url);
    } finally {
      await stores.close();
      await processor.close();
    }
  });
});
