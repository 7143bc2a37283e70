import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fingerprintOf, readMoney } from '#idempay/payments/values/money.js';

/** The canonical amount, or the problem if there is one. */
function judged(amount: string, currency = 'USD'): string {
  const money = readMoney(amount, currency);
  return 'problem' in money ? money.problem : money.amount;
}

describe('an amount of money', () => {
  test.each([
    ['100.5', 'USD', '100.50'],
    ['9999999999999.99', 'USD', '9999999999999.99'],
    ['999999999999999', 'USD', '999999999999999.00'],
    ['999999999999999', 'JPY', '999999999999999'],
    ['1.5', 'BHD', '1.500'],
    ['0.0001', 'UYW', '0.0001'],
  ])('%s %s has the canonical text %s', (amount, currency, expected) => {
    expect(judged(amount, currency)).toBe(expected);
  });

  const NOT_PLAIN = '+1 -1 01 00.1 .5 5. 1.2.3 1,5 1e3 0x10 ١ NaN'.split(' ');
  test.each<[problem: string, amounts: readonly string[]]>([
    ["'amount' must be a plain decimal number such as 100.50,", ['', ' ', '1 ', ' 1', '1\n', ...NOT_PLAIN]],
    ["'amount' must be more than 0.", ['0', '0.0', '0.00']],
    ["'amount' has more decimals than USD has (2).", ['1.001', '1.000']],
    ["'amount' must have at most 15 digits in all.", ['1000000000000000', '99999999999999.99', '0.0000000000000001']],
  ])('is refused: %s', (problem, amounts) => {
    for (const amount of amounts) expect(judged(amount), amount).toContain(problem);
  });

  /** Rule P4 for USD, stated in another way than the service states it. */
  const isGood = (text: string) =>
    /^(0|[1-9]\d*)(\.\d{1,2})?$/.test(text) && /[1-9]/.test(text) && text.replace('.', '').length <= 15;

  test('is taken exactly when the rule describes it: good, nearly good, or noise of what numbers are made of', () => {
    const texts = fc.oneof(
      fc.stringMatching(/^[1-9][0-9]{0,15}(\.[0-9]{1,3})?$/),
      fc.stringMatching(/^0?0?[0-9]{0,3}\.?[0-9]{0,3}$/),
      fc.string({ unit: fc.constantFrom(...'0123456789.+-eEx_, \u0661'), maxLength: 18 }),
      fc.string({ unit: 'binary', maxLength: 8 }),
    );
    const agrees = (text: string) => expect('amount' in readMoney(text, 'USD'), text).toBe(isGood(text));
    fc.assert(
      fc.property(texts, (text) => void agrees(text)),
      { numRuns: 2_000 },
    );
  });
});

describe('a currency', () => {
  /** The currencies of ISO 4217 whose minor unit is not 2, and those for which the data of JavaScript engines says otherwise. */
  test.each([
    ['BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF', 0],
    ['USD EUR GBP CHF AFN ALL LBP MGA MRU IRR HUF TWD COP IDR CRC SLE VED XCG ZWG', 2],
    ['BHD IQD JOD KWD LYD OMR TND', 3],
    ['CLF UYW', 4],
  ])('%s have %i decimals', (codes, decimals) => {
    for (const code of codes.split(' ')) {
      expect(judged('1', code), code).toBe(decimals === 0 ? '1' : `1.${'0'.repeat(decimals)}`);
      const tooMany = `'amount' has more decimals than ${code} has (${decimals}).`;
      expect(judged(`1.${'1'.repeat(decimals + 1)}`, code)).toBe(tooMany);
    }
  });

  test('is taken in any case and kept in upper case', () => {
    expect(readMoney('1', 'uSd')).toEqual({ amount: '1.00', currency: 'USD' });
  });

  test.each(['', ' USD', 'USD ', 'U\u017fD', 'u\u017fd', ...'US USDD ZZZ 840 XAU XXX XTS XDR __proto__'.split(' ')])(
    '%j is no currency with a minor unit',
    (currency) => {
      expect(judged('1', currency)).toMatch(/^'currency' must be an ISO 4217 code/);
    },
  );
});

test('a fingerprint is the money', () => {
  expect(fingerprintOf({ amount: '100.00', currency: 'USD' })).toBe('100.00 USD');
});
