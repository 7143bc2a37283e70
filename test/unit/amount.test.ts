import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromTenThousandths, judgeAmount, plainDecimalOf, toTenThousandths } from '#idempay/transactions/amount.js';

const BIGGEST_64_BIT = 2n ** 63n - 1n;

/** Texts that are amounts: 1 to 14 digits before the point, up to 4 after it, 15 in all, not zero. */
const amounts = fc
  .tuple(fc.bigInt({ min: 0n, max: 10n ** 14n - 1n }), fc.stringMatching(/^[0-9]{0,4}$/))
  .filter(([whole, fraction]) => String(whole).length + fraction.length <= 15)
  .map(([whole, fraction]) => (fraction === '' ? String(whole) : `${whole}.${fraction}`))
  .filter((text) => /[1-9]/.test(text));

describe('the amount of a transaction', () => {
  test.each([
    ['100', '100'],
    ['100.0', '100'],
    ['100.50', '100.5'],
    ['100.5000', '100.5'],
    ['0.0001', '0.0001'],
    ['1000', '1000'],
    ['99999999999999.9', '99999999999999.9'],
    ['99999999999.9999', '99999999999.9999'],
  ])('%s is kept as %s, the shortest plain decimal', (text, shortest) => {
    expect(judgeAmount(text)).toBe(shortest);
  });

  test.each(['', '+1', '-1', '01', '.5', '5.', '1e3', '1,5', ' 1', '1 ', '0x1', '1.2.3', '１'])(
    '%j is no plain decimal number',
    (text) => {
      expect(judgeAmount(text)).toEqual({ problem: expect.stringMatching(/^'amount' must be a plain decimal number/) });
    },
  );

  test.each(['100000000000000', '0.00001', '1.00000', '999999999999.9999', '99999999999999.99'])(
    '%s has too many digits',
    (text) => {
      expect(judgeAmount(text)).toEqual({ problem: expect.stringMatching(/^'amount' must have at most 14 digits/) });
    },
  );

  test.each(['0', '0.0', '0.0000'])('%s is not more than 0', (text) => {
    expect(judgeAmount(text)).toEqual({ problem: "'amount' must be more than 0." });
  });

  test.each([
    ['1.0E7', '10000000'],
    ['1e2', '100'],
    ['1E+2', '100'],
    ['1e-4', '0.0001'],
    ['12.5e1', '125'],
    ['12.5e-2', '0.125'],
    ['0.001e3', '1'],
    ['0.0015e03', '1.5'],
    ['100.00000', '100'],
    ['1000000e-99', `0.${'0'.repeat(92)}1`],
    ['0e5', '0'],
    ['7', '7'],
  ])('the JSON number %s is exactly %s', (number, plain) => {
    expect(plainDecimalOf(number)).toBe(plain);
  });

  test.each(['-1', '1e100', '1e-100', '01', '1.', 'abc'])('%s is left as it is, and refused', (text) => {
    expect(plainDecimalOf(text)).toBe(text);
    expect(judgeAmount(text)).toHaveProperty('problem');
  });

  test('every amount survives an exponent', () => {
    fc.assert(
      fc.property(amounts, fc.integer({ min: 0, max: 9 }), (text, shift) => {
        const [whole = '', fraction = ''] = text.split('.');
        const scaled = `${BigInt(whole + fraction)}e${shift - fraction.length}`;
        const expected = BigInt(whole + fraction) * 10n ** BigInt(shift) * 10n ** BigInt(4 - fraction.length);
        expect(toTenThousandths(plainDecimalOf(scaled))).toBe(expected);
      }),
    );
  });

  test('every amount survives the count of ten-thousandths, which 64 bits hold', () => {
    fc.assert(
      fc.property(amounts, (text) => {
        const amount = judgeAmount(text);
        if (typeof amount !== 'string') throw new Error(amount.problem);
        const count = toTenThousandths(amount);
        expect(count > 0n && count <= BIGGEST_64_BIT).toBe(true);
        expect(fromTenThousandths(String(count))).toBe(amount);
        expect(toTenThousandths(text)).toBe(count);
      }),
    );
  });

  test('every count of ten-thousandths has a text of its own, which counts the same', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: BIGGEST_64_BIT }), (count) => {
        const text = fromTenThousandths(String(count));
        expect(text).toMatch(/^(?:0|[1-9][0-9]*)(?:\.[0-9]{0,3}[1-9])?$/);
        expect(toTenThousandths(text)).toBe(count);
      }),
    );
  });

  test('every amount is read exactly by a reader of binary floating-point numbers', () => {
    fc.assert(
      fc.property(amounts, (text) => {
        const amount = judgeAmount(text) as string;
        expect(String(Number(amount))).toBe(amount);
      }),
    );
  });
});
