import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { resolvePayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { openProcessedService, shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

/** An operator may resolve after this. */
const DEDUP_SECONDS = 2;
const UNCLEAR = { PROCESSOR_DEDUP_SECONDS: `${DEDUP_SECONDS}`, PROCESSOR_TIMEOUT_MS: '900', LOCK_TTL_SECONDS: '1' };
/** Markup, a bidi override, and 64 emoji. */
const HOSTILE = `<img src=x onerror="document.title='owned'">\u202egnp.exe ${'🧾'.repeat(64)}`;
/** With the narrow blank that stands between thousands. */
const SUM = '1\u202f200.50 USD';
const DELIBERATE = 'To record it all the same, type';

const stateShown = (page: Page, state: string) => page.locator('h1 .badge', { hasText: state }).waitFor();

describeDeployments('the view of one payment', (deployment) => {
  const processed = shareProcessedService(deployment);
  const tabs = consoles();
  const open = (key: string) => tabs.open(processed().url, { hash: `#/payment/${key}`, locale: 'en-GB' });

  test('follows a key while it is paid, with its tag, and not while nobody looks', async () => {
    const { url } = processed();
    const key = await generateKey(url);
    const tab = await open(key.toUpperCase());
    const { page } = tab;
    await page.getByRole('heading', { name: 'Key without a payment' }).waitFor();
    await page.getByText('Nobody has paid with this key yet.').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payment-pending');
    const tags: (string | undefined)[] = [];
    page.on('request', (request) => tags.push(request.headers()['if-none-match']));
    await until('it is asked for with its tag', 10_000, () => tags.some((tag) => /^"[0-9a-f]{32}"$/.test(tag ?? '')));

    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await page.waitForTimeout(500);
    const asked = tab.asked.length;
    await pay(url, key);
    await page.waitForTimeout(3_000);
    expect(tab.asked.length).toBe(asked);
    await page.evaluate(() => {
      Reflect.deleteProperty(document, 'hidden');
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await stateShown(page, 'COMPLETED');
  });

  test('says that a key is unknown', async () => {
    const { page } = await open(UNKNOWN_KEY);
    await page.getByRole('heading', { name: `No payment has the key “${UNKNOWN_KEY}”` }).waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'payment-unknown');
    const { page: hostile } = await open(encodeURIComponent(HOSTILE));
    await hostile.getByText(HOSTILE.slice(0, 40)).waitFor();
    expect(await hostile.title()).not.toBe('owned');
  });
});

describeDeployments('a resolution', (deployment) => {
  const processed = shareProcessedService(deployment, {}, UNCLEAR);
  const tabs = consoles();
  let unclear: string[];

  beforeAll(async () => {
    const { url, processor } = processed();
    await processor.behave({ refuseWith: 503 });
    unclear = await Promise.all(Array.from({ length: 3 }, () => generateKey(url)));
    await Promise.all(unclear.map((key) => pay(url, key, { amount: '1200.50', currency: 'USD' })));
  });

  async function fill(page: Page, outcome: string, reason: string): Promise<void> {
    await page.getByLabel(outcome === 'completed' ? /^Completed/ : /^Declined/).check();
    await page.getByLabel('How it was found out').fill(reason);
    await page.getByRole('button', { name: 'Resolve…' }).click();
    await page.getByRole('dialog').waitFor();
  }

  /** Recovery may try it at this very moment: then it is decided again, as a person would. */
  async function record(page: Page, outcome: string, reason: string): Promise<void> {
    await until('the resolution is recorded', 30_000, async () => {
      await fill(page, outcome, reason);
      await page.getByText('Loading the processor’s answer').waitFor({ state: 'detached' });
      const deliberate = page.getByLabel(DELIBERATE);
      if (await deliberate.isVisible()) await deliberate.fill(outcome);
      await page.getByRole('button', { name: `Record ${SUM} as ${outcome}` }).click();
      await page.getByRole('button', { name: 'Dismiss' }).waitFor();
      const isDone = await page.getByText(`Recorded as ${outcome}.`).isVisible();
      await page.getByRole('button', { name: 'Dismiss' }).click();
      return isDone;
    });
  }

  const open = async (key: string) => {
    const tab = await tabs.open(processed().url, { hash: `#/payment/${key}`, locale: 'en-GB' });
    await tab.page.getByRole('heading', { name: 'Resolve' }).waitFor();
    // The form comes by itself when the service accepts a resolution.
    await expect.poll(() => tab.page.getByRole('button', { name: 'Resolve…' }).isEnabled()).toBe(true);
    return tab;
  };

  test('stands next to the processor’s answer, repeats what is final, and is shown', async () => {
    const { url } = processed();
    const key = unclear[0] ?? '';
    const { page } = await open(key);
    await page.getByText('The processor gave no answer that decides.').waitFor();
    await page.getByRole('button', { name: 'Resolve…' }).click();
    await page.getByText('Choose the outcome.').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-resolve-${deployment.name}`);
    await fill(page, 'declined', HOSTILE);
    const words = await page.getByRole('dialog').textContent();
    expect(words).toContain(`The payer has not paid ${SUM} (US Dollar).`);
    expect(words).toContain(HOSTILE);
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-confirm-${deployment.name}`);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await record(page, 'declined', HOSTILE);
    await stateShown(page, 'DECLINED');
    expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'DECLINED', resolution: HOSTILE });
    await page.locator('dd', { hasText: HOSTILE }).first().waitFor();
    await page.locator('.timeline strong', { hasText: 'Resolved by an operator' }).waitFor();
    await page.locator('.timeline .detail', { hasText: HOSTILE }).waitFor();
    expect(await page.title()).not.toBe('owned');
  });

  test('of a changed payment is refused, and shows what changed', async () => {
    const { url } = processed();
    const key = unclear[1] ?? '';
    const { page } = await open(key);
    await fill(page, 'declined', 'not on the statement');
    const other = { outcome: 'completed', reason: 'seen by another operator' };
    await until(
      'another operator resolves it',
      30_000,
      async () => (await resolvePayment(url, key, other)).status === 200,
    );
    await page.getByRole('button', { name: `Record ${SUM} as declined` }).click();
    await page.getByText('Nothing was recorded: the payment changed while you decided.').waitFor();
    expect(await page.locator('.changes li').allInnerTexts()).toEqual(
      expect.arrayContaining(['State: PROCESSING → COMPLETED', 'Resolution: none → seen by another operator']),
    );
    await stateShown(page, 'COMPLETED');
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `payment-changed-${deployment.name}`);
    expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'COMPLETED', resolution: other.reason });
  });

  test('as declined says that it lets the next attempt at the order charge', async () => {
    const { url } = processed();
    const body = { amount: '1200.50', currency: 'USD' };
    const answer = await sendJson(`${url}/api/payment?reference=order-17`, 'POST', body);
    const { page } = await open(String(answer.headers['idempotency-key']));
    await fill(page, 'declined', 'not on the statement');
    const words = 'It lets the next attempt at the order order-17 charge: a charge of this one that arrives late';
    await page.getByRole('dialog').getByText(words).waitFor();
    await takeScreenshots(page, 'payment-confirm-attempt');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await fill(page, 'completed', 'on the statement');
    expect(await page.getByRole('dialog').textContent()).not.toContain('next attempt');
  });

  test('against the processor’s answer must be typed', async () => {
    const { url, processor } = processed();
    const key = unclear[2] ?? '';
    const { page } = await open(key);
    // It answers now, and was never asked to charge: it has no record.
    await processor.behave({ refuseWith: null });
    await page.getByRole('button', { name: 'Ask again' }).click();
    await page.getByText('The processor has no record of this payment.').waitFor();
    await fill(page, 'completed', 'on the bank statement');
    const button = page.getByRole('button', { name: `Record ${SUM} as completed` });
    expect(await button.isDisabled()).toBe(true);
    await page.getByLabel(DELIBERATE).fill('declined');
    expect(await button.isDisabled()).toBe(true);
    await page.getByLabel(DELIBERATE).fill('Completed');
    expect(await button.isDisabled()).toBe(false);
    await takeScreenshots(page, 'payment-contradiction');
    await page.getByRole('button', { name: 'Cancel' }).click();
    // The answer next to the form may be old, so it is asked for again; without one the outcome must be typed too.
    await page.route('**/processor-answer', (route) => route.abort());
    await fill(page, 'completed', 'on the bank statement');
    await page.getByText('The processor’s answer did not arrive: ').waitFor();
    expect(await button.isDisabled()).toBe(true);
    await page.unroute('**/processor-answer');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await record(page, 'completed', 'on the bank statement');
    expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'COMPLETED', resolution: 'on the bank statement' });
  });
});

/**
 * Bug: the form to resolve was active for 20 hours before the service accepted a resolution. Cause: the page did not know when it does. Fix: the
 * timeline says so, and the form is disabled until then.
 */
describe('a resolution that comes too early', () => {
  const tabs = consoles();

  test('cannot be filled in, and the form says from when on', async () => {
    const processed = await openProcessedService(
      embedded,
      { refuseWith: 503 },
      { ...UNCLEAR, PROCESSOR_DEDUP_SECONDS: '7200' },
    );
    try {
      const { url } = processed;
      const key = await generateKey(url);
      await pay(url, key);
      const { page } = await tabs.open(url, { hash: `#/payment/${key}`, locale: 'en-GB' });
      await page.getByText(/It accepts one from .*\(in 1 hr 59 mins?\)/).waitFor();
      for (const field of [/^Completed/, /^Declined/, 'How it was found out']) {
        expect(await page.getByLabel(field).isDisabled()).toBe(true);
      }
      expect(await page.getByRole('button', { name: 'Resolve…' }).isDisabled()).toBe(true);
      expect(await accessibilityProblems(page)).toEqual([]);
      await takeScreenshots(page, 'payment-too-early');
      expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'PROCESSING', resolution: null });
    } finally {
      await processed.close();
    }
  });
});

describe('the view of one payment with AUTH=required', async () => {
  const operator = credentialOf('operator', ['operations', 'payments:write']);
  const shop = credentialOf('shop', ['payments:read', 'payments:write']);
  const leaving = credentialOf('leaving', ['operations']);
  const keys = await requireKeys(operator, shop, leaving);
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('goes back to the sign-in when the credential expires, and then to the same payment', async () => {
    const { headers } = shop;
    const key = (await ask(`${shared.url}/api/server-generated/generate-key`, { headers })).json<string>();
    const { page, signIn } = await tabs.open(shared.url, { secret: secretOf(leaving), hash: `#/payment/${key}` });
    await page.getByRole('heading', { name: 'Key without a payment' }).waitFor();
    await keys.write(operator, shop);
    // Nobody clicks: the page asks again by itself.
    await page.getByText('The service no longer takes your credential: sign in again.').waitFor();
    await signIn(secretOf(shop));
    await page.getByRole('heading', { name: 'Key without a payment' }).waitFor();
    await pay(shared.url, key, undefined, { headers });
    await stateShown(page, 'COMPLETED');
  });
});
