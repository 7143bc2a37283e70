import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { lastDayOf } from '#idempay/statements/days.js';
import { PAYMENT_CSV_HEADER, PAYMENT_MEMBERS, paymentCsvLine } from '#idempay/statements/payment-table.js';

describe('the table of an export', () => {
  test('has a column for each member, exact texts, and nothing that a spreadsheet runs', () => {
    const payment = {
      idempotencyKey: '0198f3a2-7c1b-7d4e-8f90-0123456789ab',
      ...{ reference: null, attempt: null, state: 'COMPLETED', amount: '1000.50', currency: 'EUR' },
      description: '=HYPERLINK("x"), "quoted"\r\nsecond line',
      metadata: { cart: '8812', '=x': '@y' },
    };
    const [row] = parse<Record<string, string>>(PAYMENT_CSV_HEADER + paymentCsvLine(payment), {
      columns: true,
      bom: true,
    });
    expect(Object.keys(row ?? {})).toEqual([...PAYMENT_MEMBERS]);
    expect(row).toMatchObject({
      ...{ idempotencyKey: payment.idempotencyKey, reference: '', amount: '1000.50', client: '' },
      description: `'${payment.description}`,
      metadata: `{"cart":"8812",'"=x":"@y"}`,
    });
  });
});

describe('the last day of a month', () => {
  test.each([
    ['2026-10', '2026-10-31'],
    ['2026-11', '2026-11-30'],
    ['2027-02', '2027-02-28'],
    ['2028-02', '2028-02-29'],
    ['2100-02', '2100-02-28'],
  ])('%s: %s', (month, day) => expect(lastDayOf(month)).toBe(day));

  test.each(['2026-13', '2026-00', '2026-1', '2026', '2026-10-01', '202610', '', ' 2026-10', '２０２６-10'])(
    'is none of %j',
    (text) => expect(lastDayOf(text)).toBeUndefined(),
  );
});
