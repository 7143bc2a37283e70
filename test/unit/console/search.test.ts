import { describe, expect, test } from 'vitest';
import { mayBeListed } from '#idempay/payments/values/reference.js';
import { NO_FILTERS } from '../../../console/src/payments/filters.js';
import { mayBeClosed, sourcesOf } from '../../../console/src/payments/search.js';

const KEY = '0198f3a2-7c1b-7d4e-8f90-0123456789ab';
const COMPUTED_KEY = 'f2f34734-19c7-82c9-b38c-68f00a192158';
const RANDOM_UUID = '3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f';
const MAIL = 'ann@shop.example';
const NOW_MS = Date.parse('2026-11-29T12:00:00Z');
const DAY_MS = 86_400_000;

const sources = (search: string, more: Partial<typeof NO_FILTERS> = {}, isOperator = true) =>
  sourcesOf({ ...NO_FILTERS, search, ...more }, isOperator, NOW_MS);
const looksIn = (search: string, isOperator = true) => sources(search, {}, isOperator).map((one) => one.looksIn);

/**
 * Bug: a search for an e-mail said that nobody has paid this order. Cause: a text was looked for as one thing only. Fix: it is looked for as
 * whatever it may be.
 */
describe('a search for payments', () => {
  test.each([
    ['an order number', 'order-17', ['order numbers', 'content']],
    ['an e-mail, which may be an order number', MAIL, ['order numbers', 'content']],
    ['a text with a blank', 'Blue shoes', ['content']],
    ['more digits than a key has', '1'.repeat(33), ['order numbers', 'content']],
    ['more characters than an order number has', 'x'.repeat(129), ['content']],
    ['more characters than a value has', '\u{1f600}'.repeat(501), []],
    ['as many as a value has', '\u{1f600}'.repeat(500), ['content']],
    ['a transaction id', 'TXN1795000000000000', ['order numbers', 'transaction ids', 'content']],
    ['how one begins', 'txn', ['order numbers', 'transaction ids', 'content']],
    ['digits, which a key may begin with', '1001', ['order numbers', 'keys', 'content']],
    ['hexadecimal digits with dashes', '0198F3A2-7c1b', ['order numbers', 'keys', 'content']],
    ['a UUID that is no key', RANDOM_UUID, ['order numbers', 'keys', 'content']],
    ['a whole key', KEY, ['order numbers', 'keys', 'content']],
    ['a whole key of a reference', COMPUTED_KEY.toUpperCase(), ['order numbers', 'keys', 'content']],
    ['an order number that was lost', 'order-undefined', ['content']],
    ['nothing', '', ['payments']],
  ])('looks for %s as whatever it may be', (_, text, expected) => {
    expect(looksIn(text)).toEqual(expected);
    expect(looksIn(text, false)).toEqual(expected.filter((one) => one !== 'content'));
  });

  test('asks for order numbers only in the form that the service lists', () => {
    for (const text of [
      'order-17',
      MAIL,
      'order-',
      'order-null',
      'a b',
      'ä',
      '%',
      '-',
      'x'.repeat(128),
      'x'.repeat(129),
    ]) {
      expect(looksIn(text).includes('order numbers'), text).toBe(mayBeListed(text));
    }
  });

  test('goes through the content of the chosen days, or of thirty days before their end', () => {
    const from = '2026-01-01T00:00:00.000Z';
    const to = '2026-02-01T00:00:00.000Z';
    const contentOf = (more: Partial<typeof NO_FILTERS>) => sources(MAIL, more).at(-1)?.query;
    expect(contentOf({ from, to })).toMatchObject({ content: MAIL, from, to });
    for (const [end, more] of [
      [NOW_MS, {}],
      [Date.parse(to), { to }],
    ] as const) {
      const since = end - Date.parse(contentOf(more)?.from ?? '');
      expect(since).toBeGreaterThanOrEqual(30 * DAY_MS);
      expect(since).toBeLessThan(31.1 * DAY_MS);
    }
    // The other filters count for every list.
    for (const { query } of sources('1001', { state: 'DECLINED', from })) {
      expect(query).toMatchObject({ state: 'DECLINED', from });
    }
    for (const { query } of sources('1001', { pending: 'true' })) expect(query).toMatchObject({ pending: 'true' });
  });

  test('keeps the filters of a link', () => {
    const query = {
      reference: 'order-17',
      find: '',
      kind: '',
      state: '',
      pending: '',
      from: '',
      to: '',
      processor: '',
    };
    expect(sources('', { reference: 'order-17' })).toEqual([{ looksIn: 'payments', query }]);
  });

  test('offers to close an order, and no e-mail', () => {
    expect(['order-17', '17/b', MAIL, 'a b', 'order-undefined', ''].filter(mayBeClosed)).toEqual(['order-17', '17/b']);
  });
});
