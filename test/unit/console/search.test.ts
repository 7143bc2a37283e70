import { describe, expect, test } from 'vitest';
import { otherReadingOf, readingsOf, searchFor } from '../../../console/src/payments/search.js';

const order = (reference: string) => ({ reference, find: '' });
const beginning = (find: string) => ({ reference: '', find });
const KEY = '0198f3a2-7c1b-7d4e-8f90-0123456789ab';
const COMPUTED_KEY = 'f2f34734-19c7-82c9-b38c-68f00a192158';
const RANDOM_UUID = '3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f';

describe('a search for payments', () => {
  test.each([
    ['an order number', 'order-17', [order('order-17')]],
    ['another one that a key cannot begin with', '17/b@shop', [order('17/b@shop')]],
    ['more digits than a key has', '1'.repeat(33), [order('1'.repeat(33))]],
    ['dashes alone', '--', [order('--')]],
    ['a transaction id', 'TXN1795000000000000', [beginning('TXN1795000000000000'), order('TXN1795000000000000')]],
    ['an order number in its form', 'TXN10023', [beginning('TXN10023'), order('TXN10023')]],
    ['how one begins', 'txn', [beginning('txn'), order('txn')]],
    ['digits, which a key may begin with', '1001', [order('1001'), beginning('1001')]],
    ['hexadecimal digits with dashes', '0198F3A2-7c1b', [order('0198F3A2-7c1b'), beginning('0198F3A2-7c1b')]],
    ['a UUID that is no key', RANDOM_UUID, [order(RANDOM_UUID), beginning(RANDOM_UUID)]],
    ['a whole key', KEY, [beginning(KEY), order(KEY)]],
    [
      'a whole key of a reference',
      COMPUTED_KEY.toUpperCase(),
      [COMPUTED_KEY.toUpperCase()].flatMap((key) => [beginning(key), order(key)]),
    ],
    ['nothing', '', [beginning('')]],
  ])('takes %s for what it may be, the likeliest first', (_, text, readings) => {
    expect(readingsOf(text)).toEqual(readings);
  });

  test('keeps the other reading of a text while it is typed on', () => {
    expect(searchFor('1001', beginning(''))).toEqual(order('1001'));
    expect(searchFor('1001a', beginning('1001'))).toEqual(beginning('1001a'));
    expect(searchFor('2002', beginning('1001'))).toEqual(order('2002'));
    expect(searchFor('order', beginning('0'))).toEqual(order('order'));
    expect(searchFor(KEY, order(KEY))).toEqual(order(KEY));
    expect(searchFor('', order('1001'))).toEqual(beginning(''));
  });

  test('offers the other reading, if there is one', () => {
    expect(otherReadingOf(order('1001'))).toEqual(beginning('1001'));
    expect(otherReadingOf(beginning('1001'))).toEqual(order('1001'));
    expect(otherReadingOf(beginning('TXN10023'))).toEqual(order('TXN10023'));
    for (const single of [order('order-17'), beginning('')]) {
      expect(otherReadingOf(single)).toBeUndefined();
    }
  });
});
