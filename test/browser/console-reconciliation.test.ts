import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parse } from 'csv-parse/sync';
import type { Page, Request } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { payOrder } from '../../testkit/client/orders.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { accessibilityProblems, consoles, expectClean } from '../../testkit/console/console.js';
import { takeScreenshots } from '../../testkit/console/screenshots.js';
import { describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import type { ChargeLine } from '../../testkit/processes/reference-processor.js';

/** Markup, a bidi override, and a text of 64 emoji. */
const HOSTILE = `<img src=x onerror="document.title='owned'">\u202e gnp.exe ${'🧾'.repeat(64)}`;
const MARKER = 'marker-5d1f9c';

const ndjson = (lines: readonly object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join('');

/** A row of the summary: its count and its totals. */
async function summaryOf(page: Page, title: string): Promise<string[]> {
  const row = page.locator('.summary tr', { hasText: title });
  return (await row.locator('td').allInnerTexts()).slice(1).map((text) => text.replace(/\s+/g, ' ').trim());
}

async function compare(page: Page, name: string, content: string): Promise<void> {
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/plain', buffer: Buffer.from(content) });
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByRole('region', { name: 'Result' }).waitFor();
}

describeDeployments('the reconciliation view', (deployment) => {
  const processed = shareProcessedService(deployment);
  const tabs = consoles();
  let charges: readonly ChargeLine[];
  let day: string;

  beforeAll(async () => {
    const { url, processor } = processed();
    for (const amount of ['100.50', '20.00', '3.10', '7.99', '0.10', '0.20']) {
      await pay(url, await generateKey(url), { amount, currency: 'USD' });
    }
    await pay(url, await generateKey(url), { amount: '500', currency: 'JPY' });
    await processor.behave({ declineRate: 1 });
    await pay(url, await generateKey(url), { amount: '9.00', currency: 'EUR' });
    await processor.behave({ declineRate: 0 });
    charges = await processor.charges();
    day = (await shownPaymentOf(url, charges[0]?.reference ?? '')).settledAt?.slice(0, 10) ?? '';
  });

  const open = () => tabs.open(processed().url, { hash: `#/reconciliation?day=${day}`, locale: 'en-GB' });

  test('agrees with the processor’s own log', async () => {
    const { page } = await open();
    await compare(page, 'charges.ndjson', await readFile(processed().processor.chargeLog, 'utf8'));
    await page.getByText('no differences').waitFor();
    expect(await summaryOf(page, 'The same on both sides')).toEqual(['8', '500 JPY 131.89 USD', '500 JPY 131.89 USD']);
  });

  test('names what was removed, changed, added and repeated, and sends nothing of it', async () => {
    const tab = await open();
    const { page } = tab;
    const requests: Request[] = [];
    page.context().on('request', (request) => requests.push(request));
    const [removed, changed, repeated] = charges as [ChargeLine, ChargeLine, ChargeLine];
    const foreign = { ...removed, reference: HOSTILE, transactionId: MARKER, amount: '6.66', status: HOSTILE };
    const statement = [
      ...charges.filter(({ reference }) => reference !== removed.reference && reference !== changed.reference),
      { ...changed, amount: '20.01' },
      repeated,
      foreign,
      { ...removed, reference: 'x', transactionId: '', amount: '1e3' },
    ];
    await compare(page, `${HOSTILE.slice(0, 60)}.ndjson`, ndjson(statement));
    await page.getByText('4 differences').waitFor();
    expect(await summaryOf(page, 'The same on both sides')).toEqual(['6', '500 JPY 11.39 USD', '500 JPY 11.39 USD']);
    expect(await summaryOf(page, 'Different')).toEqual(['1', '20.00 USD', '20.01 USD']);
    expect(await summaryOf(page, 'Only in Idempay')).toEqual(['1', '100.50 USD', '–']);
    expect(await summaryOf(page, 'Only at the processor')).toEqual(['1', '–', '6.66 USD']);
    expect(await summaryOf(page, 'Twice on the statement')).toEqual(['1', '–', '3.10 USD']);
    await page.getByText(`Line ${statement.length}: The amount “1e3” is no decimal number`).waitFor();
    await page.getByText(HOSTILE.trim(), { exact: true }).first().waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, `reconciliation-${deployment.name}`);

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download the differences' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`differences-${day}.csv`);
    const rows = parse<Record<string, string>>(await readFile(await download.path()), { columns: true, bom: true });
    expect(rows.map((row) => row.difference).sort()).toEqual([
      'Different',
      'Only at the processor',
      'Only in Idempay',
      'Twice on the statement',
    ]);

    await page.getByRole('link', { name: changed.reference }).click();
    await page.getByRole('heading', { name: 'Payment' }).waitFor();
    await page.goBack();
    // The compared lines are still there.
    await page.getByText('4 differences').waitFor();

    const sent = requests.map((request) => [request.method(), request.url(), request.postData(), request.headers()]);
    expect(requests.length).toBeGreaterThan(0);
    expect(requests.filter((request) => request.method() !== 'GET')).toEqual([]);
    for (const secret of [MARKER, '6.66', '20.01', 'gnp.exe']) expect(JSON.stringify(sent)).not.toContain(secret);
    expect(await page.title()).not.toBe('owned');
    expectClean(tab, processed().url);
  });

  test('lets a person assign the columns of a CSV file', async () => {
    const { page } = await open();
    const lines = charges.map(({ reference, amount, currency, status }) =>
      [reference, amount.replace('100.50', '100.5'), currency, status].join(';'),
    );
    const csv = ['Verweis;Betrag;Währung;Zustand', ...lines].join('\r\n');
    await page.setInputFiles('input[type=file]', {
      name: 'statement.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from(csv),
    });
    await page.getByText('Choose the column that has the idempotency key').waitFor();
    expect(await page.getByRole('button', { name: 'Compare' }).isDisabled()).toBe(true);
    await page.getByLabel('Idempotency key, or order number').selectOption('Verweis');
    await page.getByLabel('Status').selectOption('Zustand');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('no differences').waitFor();
    expect(await summaryOf(page, 'The same on both sides')).toEqual(['8', '500 JPY 131.89 USD', '500 JPY 131.89 USD']);
  });
});

describe('the reconciliation view with refunds', () => {
  const processed = shareProcessedService(embedded);
  const tabs = consoles();
  let day: string;

  beforeAll(async () => {
    const { url } = processed();
    await payOrder(url, { reference: 'order-1', amount: '100.50', currency: 'USD' });
    for (const [name, amount] of [
      ['line-1', '20.00'],
      ['line-2', '30.25'],
    ]) {
      const answer = await ask(`${url}/api/refund?reference=order-1&refund=${name}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ amount, currency: 'USD' }),
      });
      expect(answer.status, answer.text).toBe(200);
    }
    const { json } = await ask(`${url}/api/payments?kind=refund`);
    day = json<readonly { settledAt: string }[]>()[0]?.settledAt.slice(0, 10) ?? '';
  });

  const open = () => tabs.open(processed().url, { hash: `#/reconciliation?day=${day}`, locale: 'en-GB' });

  test('agrees with the processor’s own log', async () => {
    const { page } = await open();
    await compare(page, 'charges.ndjson', await readFile(processed().processor.chargeLog, 'utf8'));
    await page.getByText('no differences').waitFor();
    await page.getByText('1 payments and 2 refunds settled in Idempay').waitFor();
    expect(await summaryOf(page, 'Refunds, the same on both sides')).toEqual(['2', '50.25 USD', '50.25 USD']);
  });

  test('lists a refund of one side only, and says which were found by their amount', async () => {
    const tab = await open();
    const { page } = tab;
    const lines = ['order-1,100.50,USD,charge', 'order-1,-20.00,USD,refund', 'order-9,-7.00,USD,refund'];
    await compare(page, 'statement.csv', `order,amount,currency,type\n${lines.join('\n')}\n`);
    await page.getByText('2 differences').waitFor();
    await page.getByText('because their lines name no refund: 1.').waitFor();
    expect(await summaryOf(page, 'Refunds, only at the processor')).toEqual(['1', '–', '7.00 USD']);
    expect(await summaryOf(page, 'Refunds, only in Idempay')).toEqual(['1', '30.25 USD', '–']);
    const missing = page.locator('.differences', { hasText: 'Refunds, only in Idempay' });
    await missing.getByText('line-2', { exact: true }).waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    expectClean(tab, processed().url);
  });
});

describe('the reconciliation view with the file of a bank', () => {
  const processed = shareProcessedService(embedded);
  const tabs = consoles();

  test('skips what stands before the header, and lets a person say what the file does not', async () => {
    const { url, processor } = processed();
    await pay(url, await generateKey(url), { amount: '1000.00', currency: 'EUR' });
    const [charge] = (await processor.charges()) as [ChargeLine];
    const day = (await shownPaymentOf(url, charge.reference)).settledAt?.slice(0, 10) ?? '';
    const { page } = await tabs.open(url, { hash: `#/reconciliation?day=${day}` });
    const csv = ['"Girokonto";"DE00"', '', 'Kundenreferenz;Betrag', `${charge.reference};1.000`].join('\r');
    await page.setInputFiles('input[type=file]', { name: 'bank.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await page.getByText('The first 2 lines are no header and are skipped.').waitFor();
    await page.getByText('Choose the column that has the currency, or type it.').waitFor();
    await page.getByLabel('Currency of all lines').fill('eur');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('not every line could be read').waitFor();
    expect(await summaryOf(page, 'On a line that could not be read')).toEqual(['1', '1 000.00 EUR', '–']);
    await page.getByLabel('Before the decimals').selectOption('a comma: 1.000,50');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('no differences').waitFor();
    expect(await summaryOf(page, 'The same on both sides')).toEqual(['1', '1 000.00 EUR', '1 000.00 EUR']);
    expect(await accessibilityProblems(page)).toEqual([]);
  });
});

describe('the reconciliation view with files that are no statements', () => {
  const processed = shareProcessedService(embedded);
  const tabs = consoles();

  test.each([
    ['an empty file', '', 'The file is empty.'],
    ['one JSON text', '[{"amount":"1"}]', 'The file is one JSON text.'],
    ['a sentence', 'a sentence', 'The first line has no names of columns.'],
    ['a workbook', 'PK\u0003\u0004', 'The file is a workbook (.xlsx)'],
  ])('says what to do with %s', async (_, content, sentence) => {
    const { page } = await tabs.open(processed().url, { hash: '#/reconciliation' });
    await page.setInputFiles('input[type=file]', { name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(content) });
    await page.getByText(sentence).waitFor();
  });

  test('shows no result when the export ends early', async () => {
    const { url, processor } = processed();
    for (let paid = 0; paid < 3; paid += 1) await pay(url, await generateKey(url));
    const cutting = createServer(async (request, response) => {
      const answer = await fetch(`${url}${request.url}`);
      const body = Buffer.from(await answer.arrayBuffer());
      const type = answer.headers.get('content-type') ?? '';
      response.writeHead(answer.status, { 'content-type': type, 'transfer-encoding': 'chunked' });
      if (!request.url?.includes('/export')) return response.end(body);
      // As a service that dies: whole lines, and no end.
      return response.write(body.subarray(0, body.indexOf('\n') + 1), () => response.destroy());
    }).listen(0, '127.0.0.1');
    await once(cutting, 'listening');
    try {
      const { port } = cutting.address() as AddressInfo;
      const day = new Date().toISOString().slice(0, 10);
      const { page } = await tabs.open(`http://127.0.0.1:${port}`, { hash: `#/reconciliation?day=${day}` });
      const buffer = await readFile(processor.chargeLog);
      await page.setInputFiles('input[type=file]', { name: 'a.ndjson', mimeType: 'text/plain', buffer });
      await page.getByRole('button', { name: 'Compare' }).click();
      await page.getByText('The service cannot be reached.').waitFor();
      expect(await page.getByRole('region', { name: 'Result' }).count()).toBe(0);
    } finally {
      cutting.closeAllConnections();
      cutting.close();
    }
  });

  test('is empty until a statement is there, and takes one that is dropped', async () => {
    const { page } = await tabs.open(processed().url, { hash: '#/reconciliation' });
    await page.getByText('Drop the processor’s statement here').waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
    await takeScreenshots(page, 'reconciliation-empty');
    const transfer = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(['key,amount,currency\nk,1,USD\n'], 'dropped.csv'));
      return data;
    });
    await page.dispatchEvent('.drop', 'drop', { dataTransfer: transfer });
    await page.getByText('dropped.csv').waitFor();
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByText('one difference').waitFor();
  });
});
