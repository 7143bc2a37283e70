import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { accountProblem, canBeAccount } from '#idempay/transactions/account.js';
import { fromTenThousandths, plainDecimalOf, readAmount, toTenThousandths } from '#idempay/transactions/amount.js';
import { represent, transactionTag } from '#idempay/transactions/representation.js';
import type { Transaction } from '#idempay/transactions/transaction.js';

describe('an account reference', () => {
  test.each([
    ['64 code points of two code units each', '\u{1f4b3}'.repeat(64)],
    ['quotes, commas and a backslash', '",\\\''],
    ['a line separator, which is no control character', '\u2028'],
  ])('%s is one', (_what, account) => {
    expect(accountProblem('fromAccount', account)).toBeUndefined();
    expect(canBeAccount(account)).toBe(true);
  });

  const LENGTH = "'toAccount' must have 1 to 64 characters.";
  const CHARACTERS = "'toAccount' must be well-formed Unicode without control characters.";
  test.each([
    ['nothing', '', LENGTH],
    ['65 letters', 'a'.repeat(65), LENGTH],
    ['a line end', 'a\n', CHARACTERS],
    ['a control character beyond ASCII', '\x85', CHARACTERS],
    ['half a surrogate pair', 'a\ud83d', CHARACTERS],
  ])('%s is none', (_what, account, problem) => {
    expect(accountProblem('toAccount', account)).toBe(problem);
    expect(canBeAccount(account)).toBe(false);
  });
});

describe('the amount of a transaction', () => {
  const BIGGEST_64_BIT = 2n ** 63n - 1n;
  /** Texts that are amounts: 1 to 14 digits before the point, up to 4 after it, 15 in all, not zero. */
  const amounts = fc
    .tuple(fc.bigInt({ min: 0n, max: 10n ** 14n - 1n }), fc.stringMatching(/^[0-9]{0,4}$/))
    .filter(([whole, fraction]) => String(whole).length + fraction.length <= 15)
    .map(([whole, fraction]) => (fraction === '' ? String(whole) : `${whole}.${fraction}`))
    .filter((text) => /[1-9]/.test(text));

  test.each([
    ['100.50', '100.5'],
    ['0.0001', '0.0001'],
    ['99999999999999.9', '99999999999999.9'],
    ['99999999999.9999', '99999999999.9999'],
  ])('%s is kept as %s, the shortest plain decimal', (text, shortest) => {
    expect(readAmount(text)).toBe(shortest);
  });

  const NOT_PLAIN = '+1 -1 01 .5 5. 1e3 1,5 0x1 1.2.3 １'.split(' ');
  test.each<[what: string, texts: readonly string[], problem: RegExp]>([
    ['no plain decimal number', ['', ' 1', '1 ', ...NOT_PLAIN], /^'amount' must be a plain decimal number/],
    ['too long before the point', ['100000000000000'], /^'amount' must have at most 14 digits/],
    ['too long after the point', ['0.00001', '1.00000'], /^'amount' must have at most 14 digits/],
    ['too long in all', ['999999999999.9999', '99999999999999.99'], /^'amount' must have at most 14 digits/],
    ['not more than 0', ['0', '0.0', '0.0000'], /^'amount' must be more than 0\.$/],
  ])('that is %s is refused as such', (_what, texts, problem) => {
    for (const text of texts) expect(readAmount(text)).toEqual({ problem: expect.stringMatching(problem) });
  });

  test.each([
    ['1.0E7', '10000000'],
    ['1E+2', '100'],
    ['1e-4', '0.0001'],
    ['12.5e-2', '0.125'],
    ['0.0015e03', '1.5'],
    ['100.00000', '100'],
    ['1000000e-99', `0.${'0'.repeat(92)}1`],
    ['0e5', '0'],
  ])('as the JSON number %s is exactly %s', (number, plain) => {
    expect(plainDecimalOf(number)).toBe(plain);
  });

  test.each(['-1', '1e100', '1e-100', '01', '1.', 'abc'])('as %s is left as it is, and refused', (text) => {
    expect(plainDecimalOf(text)).toBe(text);
    expect(readAmount(text)).toHaveProperty('problem');
  });

  test('survives an exponent, the count of ten-thousandths, and a reader of binary floating-point numbers', () => {
    fc.assert(
      fc.property(amounts, fc.integer({ min: 0, max: 9 }), (text, shift) => {
        const [whole = '', fraction = ''] = text.split('.');
        const scaled = `${BigInt(whole + fraction)}e${shift - fraction.length}`;
        const expected = BigInt(whole + fraction) * 10n ** BigInt(shift) * 10n ** BigInt(4 - fraction.length);
        expect(toTenThousandths(plainDecimalOf(scaled))).toBe(expected);
        const amount = readAmount(text) as string;
        expect(fromTenThousandths(String(toTenThousandths(text)))).toBe(amount);
        expect(String(Number(amount))).toBe(amount);
        expect(toTenThousandths(text) <= BIGGEST_64_BIT).toBe(true);
      }),
    );
  });

  test('has a text of its own for every count of ten-thousandths, which counts the same', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: BIGGEST_64_BIT }), (count) => {
        const text = fromTenThousandths(String(count));
        expect(text).toMatch(/^(?:0|[1-9][0-9]*)(?:\.[0-9]{0,3}[1-9])?$/);
        expect(toTenThousandths(text)).toBe(count);
      }),
    );
  });
});

const STORED: Transaction = {
  ...{ id: 100_000_000_000_001, fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' },
  ...{ version: 1, createdAt: 1_700_000_000_000 },
};

/**
 * Bug: a major garbage collection stopped the process for half a second with a full cache. Cause: what was made of each cached
 * transaction lay in a weak map, which the collector goes through entry by entry. Fix: it lies in the transaction.
 */
test('what a client sees of a transaction is made once, without a weak map, and leaves no trace in it', () => {
  const weakly = vi.spyOn(WeakMap.prototype, 'set');
  onTestFinished(() => weakly.mockRestore());
  const transaction = { ...STORED };
  const representation = represent(transaction);
  expect(represent(transaction)).toBe(representation);
  // Others use weak maps: the platform does, for a digest.
  expect(weakly.mock.calls.map(([key]) => key)).not.toContain(transaction);
  expect(representation.tag).toBe(transactionTag(transaction, 'PENDING'));
  expect([JSON.stringify(transaction), transaction]).toEqual([JSON.stringify(STORED), STORED]);
  expect(Object.keys(transaction)).toEqual(Object.keys(STORED));
  const changed = represent({ ...transaction, status: 'FLAGGED' });
  expect(changed.json).toContain('"status":"FLAGGED"');
  expect(changed.tag).not.toBe(representation.tag);
});
