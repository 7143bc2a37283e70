import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { type ShownPayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles, expectClean, type OpenConsole } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';

/** Long enough that a second request comes while the first is under way, on a busy machine too. */
const DELAY_MS = '3000';
const REFUSED = /the server responded with a status of (400|404|409|422)/;
const HASH = '#/try-it';
const payer = credentialOf('payer', ['payments:write']);
const reader = credentialOf('reader', ['payments:read']);
const keys = await requireKeys(payer, reader);
const run = promisify(execFile);

const latest = ({ page }: OpenConsole) => page.locator('.steps > li').first();
const noteIn = (tab: OpenConsole) => latest(tab).locator('.note').textContent();
const press = ({ page }: OpenConsole, name: string) => page.getByRole('button', { name, exact: true }).click();

describeDeployments('trying payments in the console', (deployment) => {
  const slow = shareService(deployment, { PROCESSOR_DELAY_MS: DELAY_MS });
  const tabs = consoles();
  const statusesIn = (tab: OpenConsole) => latest(tab).locator('.answer .badge').allTextContents();
  const keyShown = async ({ page }: OpenConsole) => (await page.locator('.key code').textContent()) ?? '';
  const referenceShown = ({ page }: OpenConsole) => page.getByLabel('Reference').inputValue();

  test('teaches references first: pays an order in one request, repeats it, and asks for it', async () => {
    const tab = await tabs.open(slow.url, { hash: HASH });
    const { page } = tab;
    await page.getByRole('heading', { name: 'What you try appears here' }).waitFor();
    const ways = await page.locator('.way h2').allTextContents();
    expect(ways).toEqual(['First: an order, by its reference', 'Second: a key, for what has no number of its own']);
    expect(await page.locator('button.primary').allTextContents()).toEqual(['Pay the order']);
    const reference = await referenceShown(tab);
    expect(reference).toMatch(/^order-\d{6}$/);

    await press(tab, 'Ask for the order');
    await latest(tab).getByText('404 Not Found').waitFor();
    expect(await noteIn(tab)).toMatch(/^No payment of this order is completed/);
    await press(tab, 'Pay the order');
    await latest(tab).getByText('Payment processed successfully with Transaction ID:').waitFor();
    expect(await noteIn(tab)).toMatch(/^The order is charged, and the client is done/);
    // The whole protocol: one request, without a key.
    const command = await latest(tab).locator('.command pre').textContent();
    expect(command).toContain(`/api/payment?reference=${reference}'`);
    expect(command).not.toMatch(/idempotency-key/i);
    await press(tab, 'Pay the order');
    await latest(tab).getByRole('heading', { name: '3. Pay the order again' }).waitFor();
    await latest(tab).getByText('idempotent-replayed').waitFor();
    expect(await noteIn(tab)).toMatch(/^Nothing was charged now: this is the stored result/);
    const repeated = await latest(tab).locator('.answer pre').textContent();
    await press(tab, 'Ask for the order');
    await page.getByRole('heading', { name: '4. Ask for the order' }).waitFor();
    await latest(tab).getByText('200 OK').waitFor();
    expect(await latest(tab).locator('.answer pre').textContent()).toBe(repeated);

    const attempts = (await ask(`${slow.url}/api/payments?reference=${reference}`)).json<ShownPayment[]>();
    expect(attempts).toMatchObject([{ reference, attempt: 1, state: 'COMPLETED', executions: 1 }]);
    const [payment] = attempts;
    expect(repeated).toBe(`"Transaction ID: ${payment?.transactionId}"`);
    expect(await page.locator('.steps > li').count()).toBe(4);
    expect(await latest(tab).getByRole('link', { name: 'Timeline of the payment' }).getAttribute('href')).toBe(
      `#/payment/${payment?.idempotencyKey}`,
    );
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `try-it-${deployment.name}`);

    await page.getByLabel('Amount').fill('100.51');
    await press(tab, 'Pay the order');
    await latest(tab).getByText('422 Unprocessable').waitFor();
    expect(await noteIn(tab)).toMatch(/^Nothing was charged now.*takes no other reference/);
    expectClean(tab, slow.url, REFUSED);

    // The steps and the order are there after a look at something else.
    await page.getByRole('link', { name: 'Service', exact: true }).click();
    await page.getByRole('heading', { name: 'This process' }).waitFor();
    await page.goBack();
    await latest(tab).waitFor();
    expect(await page.locator('.steps > li').count()).toBe(5);
    expect(await referenceShown(tab)).toBe(reference);
    await press(tab, 'New order');
    expect(await referenceShown(tab)).not.toBe(reference);
  });

  test('pays with a key as the second way, repeats, and asks for the status', async () => {
    const tab = await tabs.open(slow.url, { hash: HASH });
    const { page } = tab;
    await press(tab, 'Generate a key');
    const key = await keyShown(tab);
    expect(key).toMatch(/^[0-9a-f-]{36}$/);
    expect(await noteIn(tab)).toMatch(/^The client must store this key before it pays/);
    await press(tab, 'Ask for the key');
    await latest(tab).getByText('404 Not Found').waitFor();
    await press(tab, 'Pay with the key');
    await latest(tab).getByText('Payment processed successfully with Transaction ID:').waitFor();
    await press(tab, 'Pay with the key');
    await latest(tab).getByText('idempotent-replayed').waitFor();
    expect(await latest(tab).locator('.answer pre').textContent()).toMatch(/^"Transaction ID: TXN\d+"$/);
    await press(tab, 'Ask for the key');
    await latest(tab).getByText('200 OK').waitFor();
    const payment = (await ask(`${slow.url}/api/payments/${key}`)).json<{
      transactionId: string;
      executions: number;
    }>();
    expect(await latest(tab).locator('.answer pre').textContent()).toBe(`"Transaction ID: ${payment.transactionId}"`);
    expect(payment.executions).toBe(1);
    expect(await latest(tab).getByRole('link', { name: 'Timeline of the payment' }).getAttribute('href')).toBe(
      `#/payment/${key}`,
    );
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `try-it-key-${deployment.name}`);
    expectClean(tab, slow.url, REFUSED);
  });

  test('pays an order twice at once: one pays, and the other one is told 409', async () => {
    const tab = await tabs.open(slow.url, { hash: HASH });
    const before = await referenceShown(tab);
    await press(tab, 'Pay a new order twice at once');
    await latest(tab).getByText('409 Conflict').waitFor();
    expect((await statusesIn(tab)).toSorted()).toEqual(['200 OK', '409 Conflict']);
    await latest(tab).getByText('retry-after').waitFor();
    await latest(tab).getByText('the other one is told 409').waitFor();
    await takeScreenshots(tab.page, `try-it-conflict-${deployment.name}`);
    expect(await referenceShown(tab)).not.toBe(before);
    await press(tab, 'Pay the order');
    await latest(tab).getByText('idempotent-replayed').waitFor();
  });

  test('lets a duplicate wait', async () => {
    const tab = await tabs.open(slow.url, { hash: HASH });
    await press(tab, 'Pay a new order twice, and wait');
    await latest(tab).getByText('The duplicate may wait, so it is not told 409.').waitFor();
    expect(await statusesIn(tab)).toEqual(['200 OK', '200 OK']);
    expect(await latest(tab).locator('.answer').filter({ hasText: 'idempotent-replayed' }).count()).toBe(1);
  });

  test('says honestly when the payment was too quick for a 409, and how to see one', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve();
    const tab = await tabs.open(url, { hash: HASH });
    await press(tab, 'Pay a new order twice at once');
    await latest(tab).locator('.note').waitFor();
    const note = await latest(tab).locator('.note').textContent();
    // Even a quick payment may be under way when the second request arrives, which then gets 409.
    expect(note).toMatch(/PROCESSOR_DELAY_MS=3000|is told 409/);
  });

  test('shows commands that do in a shell what the page did', async () => {
    const tab = await tabs.open(slow.url, { hash: HASH });
    await tab.page.getByLabel('Currency').fill(`it's "$HOME" \\`);
    await press(tab, 'Pay the order');
    await latest(tab).getByText('400 Bad Request').waitFor();
    expect(await noteIn(tab)).toMatch(/nothing was begun for it/);
    const command = (await latest(tab).locator('.command pre').textContent()) ?? '';
    const { stdout } = await run('sh', ['-c', command]);
    expect(stdout.split('\r\n\r\n')[1]).toBe(await latest(tab).locator('.answer pre').textContent());
    await tab.page.getByLabel('Currency').fill('USD');
    await press(tab, 'Pay a new order twice at once');
    await latest(tab).locator('.note').waitFor();
    const both = (await latest(tab).locator('.command pre').last().textContent()) ?? '';
    const again = await run('sh', ['-c', both]);
    expect(again.stdout.match(/idempotent-replayed: true/g)).toHaveLength(2);
  });
});

describe('trying payments in the console', () => {
  const tabs = consoles();

  async function servedWith(environment: Record<string, string>): Promise<string> {
    const stores = await embedded.open();
    onTestFinished(() => stores.close());
    return (await stores.serve(environment)).url;
  }

  test('is offered with the reference processor', async () => {
    const processor = await serveReferenceProcessor();
    onTestFinished(() => processor.close());
    const url = await servedWith({ PROCESSOR_URL: processor.url });
    const tab = await tabs.open(url, { hash: HASH });
    await processor.behave({ latencyMs: Number(DELAY_MS) });
    await press(tab, 'Pay a new order twice at once');
    await latest(tab).getByText('409 Conflict').waitFor();
    const href = await latest(tab).getByRole('link', { name: 'Timeline of the payment' }).getAttribute('href');
    expect(await processor.chargesOf(href?.replace('#/payment/', '') ?? '')).toHaveLength(1);
  });

  test('sends the next attempt at an order after a decline', async () => {
    const processor = await serveReferenceProcessor({ behaviour: { declineRate: 1 } });
    onTestFinished(() => processor.close());
    const url = await servedWith({ PROCESSOR_URL: processor.url });
    const tab = await tabs.open(url, { hash: HASH });
    const reference = await tab.page.getByLabel('Reference').inputValue();
    await press(tab, 'Pay the order');
    await latest(tab).getByText('402 Payment Required').waitFor();
    expect(await noteIn(tab)).toContain('sends the next attempt (attempt=2)');
    await processor.behave({ declineRate: 0 });
    await tab.page.getByLabel('Attempt').fill('2');
    await press(tab, 'Pay the order');
    await latest(tab).getByText('200 OK').waitFor();
    const attempts = (await ask(`${url}/api/payments?reference=${reference}`)).json<ShownPayment[]>();
    expect(attempts.map(({ attempt, state }) => [attempt, state])).toEqual([
      [2, 'COMPLETED'],
      [1, 'DECLINED'],
    ]);
    await press(tab, 'New order');
    expect(await tab.page.getByLabel('Attempt').inputValue()).toBe('1');
  });

  test('is not offered where a processor moves money, or does not say', async () => {
    const real = await startHttpServer((response) => response.writeHead(404).end());
    const away = await startHttpServer((response) => response.destroy());
    for (const [{ port }, sentence] of [
      [real, 'moves money: a payment from this page would be a real one.'],
      [away, 'has not answered yet, so it is not known whether it moves money.'],
    ] as const) {
      const url = await servedWith({ PROCESSOR_URL: `http://127.0.0.1:${port}` });
      const tab = await tabs.open(url, { hash: HASH });
      await tab.page.getByRole('heading', { name: 'Nothing is tried here' }).waitFor();
      await tab.page.getByText(sentence).waitFor();
      expect(await tab.page.getByRole('button', { name: /Pay|order|key/ }).count()).toBe(0);
      expect(await accessibilityProblems(tab.page)).toEqual([]);
    }
  });

  test('ends before a payment once the processor moves money', async () => {
    let moves = false;
    const processor = await startHttpServer((response) => {
      response.writeHead(404, moves ? {} : { 'Moves-Money': 'no' }).end();
    });
    const url = await servedWith({ PROCESSOR_URL: `http://127.0.0.1:${processor.port}` });
    const tab = await tabs.open(url, { hash: HASH });
    await press(tab, 'Generate a key');
    await latest(tab).getByText('200 OK').waitFor();
    const key = (await tab.page.locator('.key code').textContent()) ?? '';
    moves = true;
    // The service hears of it with the processor's next answer, in a payment of somebody else.
    await pay(url, await generateKey(url));
    await press(tab, 'Pay with the key');
    await tab.page.getByText('moves money: a payment from this page would be a real one.').waitFor();
    expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'PENDING' });
    expect(tab.asked.filter((address) => address.startsWith(`${url}/api/payment`))).toEqual([]);
  });

  test('puts no credential into a command, and asks only for what the scopes allow', async () => {
    const url = await servedWith(keys.environment);
    const tab = await tabs.open(url, { hash: HASH, secret: secretOf(payer) });
    for (const name of ['Generate a key', 'Pay the order']) {
      await press(tab, name);
      await latest(tab).getByRole('heading', { name }).waitFor();
      await latest(tab).getByText('200 OK').waitFor();
      expect(await latest(tab).locator('.command pre').textContent()).toContain('-H "Authorization: Bearer $TOKEN"');
    }
    expect(await tab.page.content()).not.toContain(secretOf(payer));
    expect(await tab.page.getByRole('button', { name: /^Ask/ }).count()).toBe(0);
    expect(await tab.page.getByRole('link', { name: 'Timeline of the payment' }).count()).toBe(0);
    const other = await tabs.open(url, { hash: HASH, secret: secretOf(reader) });
    await other.page.getByRole('heading', { name: 'Try it needs another scope' }).waitFor();
  });
});
