import { describe, expect, test } from 'vitest';
import { type Charge, createTellCharge } from '#idempay/payments/history/charge.js';
import type { PaymentRecord } from '#idempay/payments/ports/payment-history.js';
import type { ComputeKey } from '#idempay/payments/values/reference.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';

type Row = Partial<Pick<PaymentRecord, 'state' | 'resolution' | 'client' | 'reference'>>;

const COMPLETED: Row = { state: 'COMPLETED' };
const BY_OPERATOR: Row = { state: 'DECLINED', resolution: 'not on the statement' };
const DECLINED: Row = { state: 'DECLINED' };
const CANCELLED: Row = { state: 'CANCELLED' };
const PROCESSING: Row = { state: 'PROCESSING' };
const KEY = 'key of attempt 1';
const computeKey: ComputeKey = ({ attempt }) => `key of attempt ${attempt}`;
const REFERENCE = { text: 'order-1', attempt: 1, client: undefined };

/** The rows of attempts 1, 2 and so on; undefined is one that is not there. */
function tellWith(rows: readonly (Row | undefined)[], mayBeLost = false) {
  const records = rows.map((row, index) => row && ({ ...row, attempt: index + 1 } as PaymentRecord));
  return createTellCharge({
    history: {
      find: async (key) => records[Number(key.split(' ').at(-1)) - 1],
      newestAttempt: async () => records.findLast((row) => row !== undefined),
    },
    ledger: { mayBeLost: async () => mayBeLost },
    computeKey,
  });
}

describe('the charge of a key', () => {
  test.each<[Charge, string, Row | undefined]>([
    ['made', 'a completed payment', COMPLETED],
    ['made', 'one that an operator found completed', { ...COMPLETED, resolution: 'on the statement' }],
    ['none', 'one that the processor declined', DECLINED],
    ['none', 'one that was cancelled', CANCELLED],
    ['unknown', 'one that an operator found declined', BY_OPERATOR],
    ['unknown', 'one that is under way', PROCESSING],
    ['unknown', 'one that has no row', undefined],
  ])('is %s: %s', async (charge, _what, row) => {
    expect(await tellWith([row])({ key: KEY })).toBe(charge);
  });

  test('is not told to another client', async () => {
    const tell = tellWith([{ ...DECLINED, client: 'key:shop' }]);
    expect(await tell({ key: KEY, client: 'key:rival' })).toBe('unknown');
    expect(await tell({ key: KEY, client: 'key:shop' })).toBe('none');
    expect(await tell({ key: KEY })).toBe('none');
  });

  test('is unknown of a cancelled payment where rows were lost, and none of a declined one', async () => {
    expect(await tellWith([CANCELLED], true)({ key: KEY })).toBe('unknown');
    expect(await tellWith([DECLINED], true)({ key: KEY })).toBe('none');
  });
});

/**
 * Bug: for the key of attempt 1, named by the header alone, `charge` was `none` although attempt 2 had paid. Cause: only the key's own row
 * was read. Fix: a row that has a reference speaks of all its attempts.
 */
describe('the charge of a key that is computed from a reference', () => {
  test.each<[Charge, readonly Row[]]>([
    ['made', [DECLINED, COMPLETED]],
    ['unknown', [DECLINED, PROCESSING]],
    ['unknown', [DECLINED, BY_OPERATOR]],
    ['none', [DECLINED, DECLINED]],
    ['none', [DECLINED, CANCELLED]],
  ])('is %s by the rows of all attempts: %j', async (charge, rows) => {
    const ofOrder = rows.map((row) => ({ ...row, reference: REFERENCE.text, client: 'key:shop' }));
    expect(await tellWith(ofOrder)({ key: KEY, client: 'key:shop' })).toBe(charge);
    expect(await tellWith(ofOrder)({ key: KEY, client: 'key:rival' })).toBe('unknown');
  });

  test('is unknown if the row of a later attempt may be lost', async () => {
    expect(await tellWith([{ ...DECLINED, reference: REFERENCE.text }], true)({ key: KEY })).toBe('unknown');
  });
});

describe('the charge of a reference', () => {
  test.each<[Charge, readonly (Row | undefined)[]]>([
    ['unknown', []],
    ['none', [DECLINED]],
    ['none', [CANCELLED]],
    ['none', [DECLINED, DECLINED, CANCELLED]],
    ['made', [DECLINED, COMPLETED]],
    ['unknown', [DECLINED, PROCESSING]],
    ['unknown', [BY_OPERATOR]],
    // A payment that an operator found declined may be charged late, whatever came after it.
    ['unknown', [BY_OPERATOR, DECLINED]],
    ['unknown', [BY_OPERATOR, CANCELLED]],
    ['unknown', [undefined, DECLINED]],
    ['made', [COMPLETED, DECLINED]],
    ['unknown', [PROCESSING, DECLINED]],
  ])('is %s by the rows of all attempts: %j', async (charge, rows) => {
    for (const attempt of [1, 2, 9]) {
      const reference = { ...REFERENCE, attempt };
      expect(await tellWith(rows)({ key: computeKey(reference), reference })).toBe(charge);
    }
  });

  test('is unknown where the row of a later attempt may be lost, unless an attempt was charged', async () => {
    const named = { key: KEY, reference: REFERENCE };
    expect(await tellWith([DECLINED], true)(named)).toBe('unknown');
    expect(await tellWith([DECLINED, COMPLETED], true)(named)).toBe('made');
  });
});

test('a store that is down knows nothing, and a mistake is no such store', async () => {
  const telling = (fault: Error) =>
    createTellCharge({
      history: { find: () => Promise.reject(fault), newestAttempt: () => Promise.reject(fault) },
      ledger: { mayBeLost: async () => false },
      computeKey,
    });
  const down = telling(new StoreUnavailable('unchanged', 'down'));
  expect(await down({ key: KEY })).toBe('unknown');
  expect(await down({ key: KEY, reference: REFERENCE })).toBe('unknown');
  await expect(telling(new TypeError('a mistake'))({ key: KEY })).rejects.toThrow('a mistake');
});
