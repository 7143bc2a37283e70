import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { lastDayOf } from '#idempay/statements/days.js';
import { PAYMENT_COLUMNS, PAYMENT_CSV_HEADER, paymentCsvLine } from '#idempay/statements/payment-table.js';

const rowOf = (payment: Parameters<typeof paymentCsvLine>[0]) => {
  const [row] = parse<Record<string, string>>(PAYMENT_CSV_HEADER + paymentCsvLine(payment), {
    columns: true,
    bom: true,
  });
  return row ?? {};
};

describe('the table of an export', () => {
  test('has a column for each member, exact texts, and nothing that a spreadsheet runs', () => {
    const payment = {
      idempotencyKey: '0198f3a2-7c1b-7d4e-8f90-0123456789ab',
      ...{ reference: null, attempt: null, state: 'COMPLETED', amount: '1000.50', currency: 'EUR' },
      description: '=HYPERLINK("x"), "quoted"\r\nsecond line',
      metadata: { cart: '8812', '=x': '@y' },
    };
    const row = rowOf(payment);
    expect(Object.keys(row)).toEqual([...PAYMENT_COLUMNS]);
    expect(row).toMatchObject({
      ...{ idempotencyKey: payment.idempotencyKey, reference: '', amount: '1000.50', client: '' },
      description: `'${payment.description}`,
      metadata: `{"cart":"8812",'"=x":"@y"}`,
      ...{ kind: 'payment', refunded: '', refundOf: '', refundName: '', refundReason: '', processorId: '' },
    });
  });

  test('tells refunds from payments, and has each part of a refund in a cell of its own', () => {
    const payment = '0198f3a2-7c1b-7d4e-8f90-0123456789ab';
    expect(rowOf({ idempotencyKey: payment, refunded: '12.50', processorId: 'pi_1' })).toMatchObject({
      ...{ kind: 'payment', refunded: '12.50', refundOf: '', processorId: 'pi_1' },
    });
    const refund = { payment, name: 'line-2', reason: '=1+1;"x"' };
    expect(rowOf({ idempotencyKey: 'f8d3a85b', amount: '12.50', refund })).toMatchObject({
      ...{ kind: 'refund', amount: '12.50', refunded: '', refundOf: payment, refundName: 'line-2' },
      refundReason: `'=1+1;"x"`,
    });
    expect(rowOf({ refund: { payment, name: 'line-3', reason: null } }).refundReason).toBe('');
  });

  test('moves no column when a new one comes', () => {
    expect(PAYMENT_COLUMNS.indexOf('client')).toBe(16);
    expect(PAYMENT_COLUMNS.slice(17)).toEqual('kind refunded refundOf refundName refundReason processorId'.split(' '));
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
