import { expect, test } from 'vitest';
import { ExportTotals } from '#idempay/payments/history/export-totals.js';
import type { PaymentRecord } from '#idempay/payments/ports/payment-history.js';

type Row = readonly [amount: string, currency: string, state?: PaymentRecord['state']];

function lineOf(...pages: (readonly Row[])[]): string {
  const totals = new ExportTotals();
  for (const page of pages) {
    totals.add(page.map(([amount, currency, state = 'COMPLETED']) => ({ amount, currency, state }) as PaymentRecord));
  }
  return totals.json();
}

test('an export without payments ends with a count of 0 and no sums', () => {
  expect(lineOf()).toBe('{"end":true,"count":0,"sums":{}}');
  expect(lineOf([])).toBe('{"end":true,"count":0,"sums":{}}');
});

test('sums are exact, with the decimals of their currency, and in the order of its code', () => {
  const cents: Row[] = Array.from({ length: 10 }, () => ['0.10', 'EUR']);
  expect(lineOf(cents, [['0.01', 'EUR']], [['999', 'JPY']], [['0.005', 'BHD']])).toBe(
    '{"end":true,"count":13,"sums":{"BHD":"0.005","EUR":"1.01","JPY":"999"}}',
  );
});

test('sums go on exactly beyond what a binary float holds', () => {
  const large: Row[] = Array.from({ length: 1_000 }, () => ['9999999999999.99', 'USD']);
  expect(JSON.parse(lineOf(large)).sums).toEqual({ USD: '9999999999999990.00' });
});

test('declined payments are counted and not summed', () => {
  expect(lineOf([['5.00', 'USD', 'DECLINED']], [['7.00', 'CHF']], [['1.00', 'CHF', 'DECLINED']])).toBe(
    '{"end":true,"count":3,"sums":{"CHF":"7.00"}}',
  );
});
