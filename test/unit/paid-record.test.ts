import { expect, test } from 'vitest';
import { createPaidRecord } from '#idempay/http/payments/payment-answers.js';
import type { PaymentRecords, ShownPayment } from '#idempay/payments/history/payment-records.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';

const KEY = '019abcde-1c1a-7f3e-8b5a-2f6c1d9e4b70';
const ID = 'TXN1763640000000000000001';
const row = { key: KEY, state: 'COMPLETED', transactionId: ID } as ShownPayment;
const recordWhere = (get: PaymentRecords['get'], transactionId = ID) =>
  createPaidRecord(get)(KEY, transactionId, undefined);

test('the record of a paid payment is read', async () => {
  expect(JSON.parse((await recordWhere(async () => row)) ?? '')).toMatchObject({
    idempotencyKey: KEY,
    transactionId: ID,
  });
});

/** The outcome is known, so the sentence says it. */
test('there is no record of a paid payment whose row was lost, has another outcome, or cannot be read', async () => {
  expect(await recordWhere(async () => ({ state: 'ABSENT', endedUnpaid: false }))).toBeUndefined();
  expect(await recordWhere(async () => ({ ...row, state: 'PROCESSING' }) as ShownPayment)).toBeUndefined();
  expect(await recordWhere(async () => row, 'TXN2')).toBeUndefined();
  const away = new StoreUnavailable('unchanged', 'the database is down');
  expect(await recordWhere(() => Promise.reject(away))).toBeUndefined();
});

test('a mistake is not taken for a store that is down', async () => {
  await expect(recordWhere(() => Promise.reject(new TypeError('a mistake')))).rejects.toThrow('a mistake');
});
