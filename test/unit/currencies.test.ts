import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { ENDED_CURRENCIES, MINOR_UNITS } from '#idempay/payments/values/currencies.js';
import { readMoney } from '#idempay/payments/values/money.js';
import { findIsoCodes } from '../../testkit/servers/binaries.js';

/**
 * Bug: the table of currencies was older than ISO 4217, so that BGN was charged after Bulgaria had left it. Cause: it was a data package
 * that nothing compared with the standard. Fix: our list of what has ended, and this comparison with two other sources.
 */

/** Codes of list one without a minor unit: metals, units of account, tests, and "no currency". */
const WITHOUT_MINOR_UNIT = 'XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX'.split(' ');

/** Current codes that some iso-codes that Debian ships do not have yet (4.15 of Debian 12 is of May 2023), with what added them. */
const YOUNGER_THAN_ISO_CODES: Readonly<Record<string, string>> = {
  XAD: 'Arab Accounting Dinar, of 2025',
  XCG: 'Caribbean Guilder, of 2025',
  ZWG: 'Zimbabwe Gold, of 2024',
};

/**
 * Currencies that ICU, and so `Intl`, shows with other decimals than ISO 4217 lists: it follows what is usual in prices, and ISO what exists
 * in accounts. So each of them has two decimals in ISO 4217, IQD three, and fewer in ICU.
 */
const ROUNDED_IN_PRICES = 'AFN ALL COP HUF IDR IQD IRR KPW LAK LBP MGA MMK MRU PKR RSD SOS SYP TZS YER'.split(' ');

const decimalsOfIntl = (currency: string) =>
  new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits;

describe('the table of currencies', () => {
  test('has the codes of iso-codes, except for what ended or began since, and what has no minor unit', async () => {
    const { 4217: listed } = JSON.parse(await readFile(await findIsoCodes(), 'utf8')) as Record<
      string,
      { alpha_3: string }[]
    >;
    const codes = new Set((listed ?? []).map(({ alpha_3 }) => alpha_3));
    expect(codes.size).toBeGreaterThan(150);
    const known = new Set([...WITHOUT_MINOR_UNIT, ...ENDED_CURRENCIES.keys()]);
    const missing = [...codes].filter((code) => !MINOR_UNITS.has(code) && !known.has(code));
    expect(missing, 'current there and unknown here').toEqual([]);
    const more = [...MINOR_UNITS.keys()].filter((code) => !codes.has(code) && !(code in YOUNGER_THAN_ISO_CODES));
    expect(more, 'current here and unknown there: has it ended?').toEqual([]);
  });

  test('has 165 currencies with a minor unit, as list one of ISO 4217 of 2026-09-17', () => {
    expect(MINOR_UNITS.size).toBe(165);
  });

  test('has the decimals of Intl, except where those are of prices', () => {
    const differing = [...MINOR_UNITS].filter(([code, decimals]) => decimalsOfIntl(code) !== decimals);
    const unknown = differing.filter(([code]) => !ROUNDED_IN_PRICES.includes(code));
    expect(unknown).toEqual([]);
    for (const [code, decimals] of differing) expect(decimalsOfIntl(code), code).toBeLessThan(decimals);
  });

  test('has a current successor for each currency that has ended', () => {
    for (const [code, { successor }] of ENDED_CURRENCIES) {
      expect(MINOR_UNITS.has(successor), code).toBe(true);
      expect(MINOR_UNITS.has(code), code).toBe(false);
    }
  });
});

describe('money in a currency that has ended', () => {
  test('is refused with its successor, and keeps the decimals that it had', () => {
    expect(readMoney('100.5', 'bgn')).toEqual({
      problem: "'currency' BGN ended in 2026, and EUR replaced it. Convert the amount, and pay in EUR.",
      money: { amount: '100.50', currency: 'BGN' },
    });
    expect(readMoney('1000', 'BYR')).toMatchObject({ money: { amount: '1000', currency: 'BYR' } });
  });

  test('is a problem of its amount where that is wrong', () => {
    expect(readMoney('100.505', 'BGN')).toEqual({ problem: "'amount' has more decimals than BGN has (2)." });
    expect(readMoney('0', 'BGN')).toEqual({ problem: "'amount' must be more than 0." });
  });
});
