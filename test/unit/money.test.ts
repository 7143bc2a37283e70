import { describe, expect, test } from 'vitest';
import { fingerprintOf, judgeMoney } from '#idempay/payments/values/money.js';

/** The canonical amount; fails with the problem when there is one. */
function canonical(amount: string, currency: string): string {
  const money = judgeMoney(amount, currency);
  if ('problem' in money) throw new Error(money.problem);
  return money.amount;
}

function problemOf(amount: string, currency = 'USD'): string {
  const money = judgeMoney(amount, currency);
  if (!('problem' in money)) throw new Error(`${amount} ${currency} was taken as ${money.amount}`);
  return money.problem;
}

describe('an amount of money', () => {
  test.each([
    ['100', 'USD', '100.00'],
    ['100.5', 'USD', '100.50'],
    ['100.50', 'USD', '100.50'],
    ['0.01', 'USD', '0.01'],
    ['9999999999999.99', 'USD', '9999999999999.99'],
    ['999999999999999', 'USD', '999999999999999.00'],
    ['1', 'JPY', '1'],
    ['999999999999999', 'JPY', '999999999999999'],
    ['1.5', 'BHD', '1.500'],
    ['1.5', 'CLF', '1.5000'],
    ['0.0001', 'UYW', '0.0001'],
    ['1.25', 'MRU', '1.25'],
    ['1.25', 'MGA', '1.25'],
  ])('%s %s has the canonical text %s', (amount, currency, expected) => {
    expect(canonical(amount, currency)).toBe(expected);
  });

  test.each(['', ' ', '1 ', ' 1', '1\n', ...'+1 -1 01 00.1 .5 5. 1.2.3 1,5 1e3 0x10 ١ NaN'.split(' ')])(
    '%j is no plain decimal number',
    (amount) => {
      expect(problemOf(amount)).toMatch(/^'amount' must be a plain decimal number/);
    },
  );

  test.each(['0', '0.0', '0.00'])('%s is not more than 0', (amount) => {
    expect(problemOf(amount)).toBe("'amount' must be more than 0.");
  });

  test.each([
    ['1.001', 'USD', 2],
    ['1.000', 'USD', 2],
    ['1.0', 'JPY', 0],
    ['1.0001', 'BHD', 3],
    ['1.00001', 'CLF', 4],
  ])('%s %s has more decimals than the currency', (amount, currency, decimals) => {
    expect(problemOf(amount, currency)).toBe(`'amount' has more decimals than ${currency} has (${decimals}).`);
  });

  test.each(['1000000000000000', '99999999999999.99', '0.0000000000000001'])('%s has too many digits', (amount) => {
    expect(problemOf(amount)).toBe("'amount' must have at most 15 digits in all.");
  });
});

describe('a currency', () => {
  /** ISO 4217, where the minor unit is not 2; and those for which the data of JavaScript engines says otherwise. */
  test.each([
    ['BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF', 0],
    ['USD EUR GBP CHF AFN ALL LBP MGA MRU IRR HUF TWD COP IDR CRC SLE VED XCG ZWG', 2],
    ['BHD IQD JOD KWD LYD OMR TND', 3],
    ['CLF UYW', 4],
  ])('%s have %i decimals', (codes, decimals) => {
    for (const code of codes.split(' ')) {
      expect(canonical('1', code), code).toBe(decimals === 0 ? '1' : `1.${'0'.repeat(decimals)}`);
    }
  });

  test('is taken in any case and kept in upper case', () => {
    expect(judgeMoney('1', 'uSd')).toEqual({ amount: '1.00', currency: 'USD' });
  });

  test.each(['', ' USD', 'USD ', 'U\u017fD', 'u\u017fd', ...'US USDD ZZZ 840 XAU XXX XTS XDR __proto__'.split(' ')])(
    '%j is no currency with a minor unit',
    (currency) => {
      expect(problemOf('1', currency)).toMatch(/^'currency' must be an ISO 4217 code/);
    },
  );
});

describe('a fingerprint', () => {
  test('is the same for two texts of the same money, and differs with the amount or the currency', () => {
    const of = (amount: string, currency: string) => {
      const money = judgeMoney(amount, currency);
      if ('problem' in money) throw new Error(money.problem);
      return fingerprintOf(money);
    };
    expect(of('100', 'usd')).toBe(of('100.00', 'USD'));
    expect(of('100.01', 'USD')).not.toBe(of('100.00', 'USD'));
    expect(of('100', 'EUR')).not.toBe(of('100', 'USD'));
  });
});
