import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import {
  changeStatus,
  createdIn,
  draft,
  givenTransaction,
  newAccount,
  postBatch,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { accessibilityProblems, consoles, expectClean, type OpenConsole } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { givenTransactions, hashOf, type Members, rowOf } from '../../testkit/console/transactions.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const EMOJI = '\u{1f4b3}'.repeat(64);
/** Markup, a script, an override of the text's direction that is not ended, and as much as an account may hold. */
const HOSTILE = [
  `<img src=x onerror=alert(1)>`,
  `</bdi><script>alert(1)</script>`,
  `\u202etnuocca\u2066 {{x}} \${y}`,
  EMOJI,
  `'"><b>&amp; %00 `,
  'x'.repeat(64),
];

describeDeployments('the transactions of the console', (deployment) => {
  const shared = shareService(deployment);
  const tabs = consoles();
  const rowsOf = ({ page }: OpenConsole) => page.locator('tbody tr');

  const givenMany = (count: number, members?: Members) => givenTransactions(shared.url, count, members);

  test('shows the newest first, with exact amounts that can be read in one way only, and UTC on times', async () => {
    const { from, created } = await givenMany(3, (index) => ({
      amount: ['99999999999.9999', '0.0001', '12345.5'][index],
    }));
    const options = { hash: hashOf({ from }), locale: 'de-DE', timezoneId: 'Asia/Tokyo' };
    const tab = await tabs.open(shared.url, options);
    await rowsOf(tab).nth(2).waitFor();
    expect(await tab.page.locator('tbody td.number').allTextContents()).toEqual([
      '12\u202f345.5',
      '0.0001',
      '99\u202f999\u202f999\u202f999.9999',
    ]);
    expect(await tab.page.locator('tbody tr td:first-child').allTextContents()).toEqual(
      created.map(({ transactionId }) => String(transactionId)),
    );
    const time = tab.page.locator('tbody time').first();
    expect(await time.getAttribute('datetime')).toBe(created[0]?.createdAt);
    expect(await time.getAttribute('title')).toMatch(/ UTC$/);
    await tab.page.getByText('3 shown, and none is older.').waitFor();
    expectClean(tab, shared.url);
  });

  test('filters by what the address says, and puts into the address what is filtered by', async () => {
    const to = newAccount();
    const { from, created } = await givenMany(4, (index) =>
      index === 1 ? { toAccount: to, status: 'FLAGGED' } : { status: 'ON_HOLD' },
    );
    const [, , flagged] = created as [Transaction, Transaction, Transaction];
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    await rowsOf(tab).nth(3).waitFor();
    await page.getByLabel('Status', { exact: true }).selectOption('FLAGGED');
    await expect.poll(() => rowsOf(tab).count()).toBe(1);
    expect(new URL(page.url()).hash).toBe(hashOf({ from, status: 'FLAGGED' }));
    await rowOf(tab, flagged).getByRole('link', { name: to }).click();
    await expect.poll(() => new URL(page.url()).hash).toBe(hashOf({ from, to, status: 'FLAGGED' }));
    await page.goBack();
    await page.goBack();
    await rowsOf(tab).nth(3).waitFor();
    expect(await page.getByLabel('From').inputValue()).toBe(from);
    await page.getByLabel('Or by id').fill(` ${flagged.transactionId} `);
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await expect.poll(() => rowsOf(tab).count()).toBe(1);
    await rowOf(tab, flagged).waitFor();
    expect(new URL(page.url()).hash).toBe(hashOf({ id: String(flagged.transactionId) }));
    await page.getByLabel('Or by id').fill('');
    await page.getByLabel('From').fill('nobody');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'No transaction matches' }).waitFor();
    await page.getByLabel('From').fill('');
    await page.getByLabel('Or by id').fill('007');
    await page.keyboard.press('Enter');
    await page
      .getByRole('alert')
      .getByText(/positive whole number|plain/)
      .waitFor();
  });

  test('appends older ones on demand, keeps some hundred rows, and its place', async () => {
    const { from, created } = await givenMany(650);
    const tab = await tabs.open(shared.url, { hash: hashOf({ from }) });
    const { page } = tab;
    const older = page.getByRole('button', { name: 'Show older ones' });
    for (const count of [100, 200, 300, 400]) {
      await expect.poll(() => rowsOf(tab).count()).toBe(count);
      await older.click();
    }
    await page.getByText('Newer ones are not shown any more.').waitFor();
    for (let last = 500; last < 650; last += 100) await older.click();
    await page.getByText('400 shown, and none is older.').waitFor();
    const shown = await page.locator('tbody tr td:first-child').allTextContents();
    expect(shown).toEqual(created.slice(-400).map(({ transactionId }) => String(transactionId)));

    const looked = page.locator('tbody tr').nth(200);
    await looked.scrollIntoViewIfNeeded();
    const before = await looked.boundingBox();
    await givenTransaction(shared.url, { fromAccount: from });
    await changeStatus(shared.url, Number(shown[200]), 'FLAGGED');
    await page.evaluate(() => document.querySelector<HTMLElement>('.view-head button')?.click());
    await looked.getByText('FLAGGED').waitFor();
    expect((await looked.boundingBox())?.y).toBe(before?.y);
    await page.getByRole('button', { name: 'Back to the newest' }).click();
    await expect.poll(() => rowsOf(tab).count()).toBe(100);
  });

  test('goes on looking for a rare status, and says where it stopped', async () => {
    const from = newAccount();
    const rows = Array.from({ length: 1_000 }, () => draft({ fromAccount: from, status: 'PENDING' }));
    const first = await givenTransaction(shared.url, { fromAccount: from, status: 'BLOCKED' });
    for (let batch = 0; batch < 6; batch += 1) await postBatch(shared.url, rows);
    const tab = await tabs.open(shared.url, { hash: hashOf({ from, status: 'BLOCKED' }) });
    await rowOf(tab, first).waitFor();
    expect(tab.asked.filter((address) => address.includes('/search')).length).toBe(2);
  });

  test('shows hostile text as text', async () => {
    const to = newAccount();
    for (const fromAccount of HOSTILE) await givenTransaction(shared.url, { fromAccount, toAccount: to });
    const tab = await tabs.open(shared.url, { hash: hashOf({ to }) });
    const { page } = tab;
    await rowsOf(tab)
      .nth(HOSTILE.length - 1)
      .waitFor();
    const shown = await page
      .locator('tbody td:nth-child(2) bdi')
      .evaluateAll((all) => all.map((one) => one.textContent));
    expect(shown).toEqual(HOSTILE.toReversed());
    expect(await page.locator('tbody img, tbody script, tbody b').count()).toBe(0);
    // A character that turns text around is named; nothing next to it is turned.
    expect(await page.getByText('hidden characters').count()).toBe(2);
    for (const account of HOSTILE) {
      await page.goto(`${shared.url}/console${hashOf({ from: account, to })}`);
      await expect.poll(() => rowsOf(tab).count()).toBe(1);
      expect(await page.getByLabel('From').inputValue()).toBe(account);
    }
    await page.goto(`${shared.url}/console${hashOf({ to })}`);
    await rowsOf(tab)
      .nth(HOSTILE.length - 1)
      .waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `transactions-hostile-${deployment.name}`);
    // Nothing is wider than the screen but the table, which scrolls by itself.
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    await page
      .getByRole('button', { name: /^Delete/ })
      .first()
      .click();
    await page.getByRole('dialog').getByLabel('I want it gone for good').waitFor();
    await takeScreenshots(page, `transaction-delete-${deployment.name}`);
    expectClean(tab, shared.url);
  });

  test('is clean for axe, and looks as it should', async () => {
    const names = ['acme-payroll', 'supplier-4711', 'refunds', 'rent', 'kiosk-12'];
    const statuses = [
      'PENDING',
      'COMPLETED',
      'COMPLETED',
      'FLAGGED',
      'ON_HOLD',
      'FAILED',
      'PROCESSING',
      'CANCELLED',
      'BLOCKED',
    ];
    const to = newAccount();
    const drafts = Array.from({ length: 40 }, (_, index) =>
      draft({
        fromAccount: names[index % names.length],
        toAccount: to,
        amount: `${1 + ((index * index * 37) % 90_000)}.${String((index * 7) % 100).padStart(2, '0')}`,
        status: statuses[index % statuses.length],
      }),
    );
    await postBatch(shared.url, drafts);
    const tab = await tabs.open(shared.url, { hash: hashOf({ to }) });
    await rowsOf(tab).nth(39).waitFor();
    expect(await accessibilityProblems(tab.page)).toEqual([]);
    await takeScreenshots(tab.page, `transactions-${deployment.name}`);
    expectClean(tab, shared.url);
  });
});

const writer = credentialOf('writer', ['transactions:read', 'transactions:write']);
const reader = credentialOf('reader', ['transactions:read']);
const payer = credentialOf('payer', ['payments:write']);
const keys = await requireKeys(writer, reader, payer);

describe('the transactions of the console with AUTH=required', () => {
  const shared = shareService(embedded, keys.environment);
  const tabs = consoles();

  test('offers changes only with the scope, and is not shown without its own', async () => {
    const drafts = [draft({ fromAccount: 'scoped' })];
    const [transaction] = createdIn(await postBatch(shared.url, drafts, writer.headers));
    const row = { hasText: String(transaction?.transactionId) };
    const written = await tabs.open(shared.url, { secret: secretOf(writer), hash: '#/transactions' });
    await written.page
      .locator('tbody tr', row)
      .getByRole('button', { name: /^Delete/ })
      .waitFor();
    const read = await tabs.open(shared.url, { secret: secretOf(reader), hash: '#/transactions' });
    await read.page.locator('tbody tr', row).waitFor();
    expect(await read.page.locator('tbody').getByRole('button').count()).toBe(0);
    const paid = await tabs.open(shared.url, { secret: secretOf(payer), hash: '#/transactions' });
    await paid.page.getByRole('heading', { name: 'Transactions needs another scope' }).waitFor();
    await paid.page.getByText('transactions:read', { exact: true }).waitFor();
    expect(await paid.page.getByRole('link', { name: 'Transactions' }).count()).toBe(0);
    expect(paid.asked.filter((address) => address.includes('/api/transactions'))).toEqual([]);
  });
});
