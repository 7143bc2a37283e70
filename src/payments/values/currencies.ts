import * as iso4217 from 'dinero.js/currencies';

export interface EndedCurrency {
  /** The year in which ISO 4217 moved the code from list one (current) to list three (historic). */
  readonly endedIn: number;
  readonly successor: string;
  readonly decimals: number;
}

/**
 * Currencies that ended since 2016, after list three of ISO 4217. No new payment is made in them. Payments that were made before keep
 * their decimals, because a repeat must be recognized as the same payment.
 */
export const ENDED_CURRENCIES: ReadonlyMap<string, EndedCurrency> = new Map([
  ['ANG', { endedIn: 2025, successor: 'XCG', decimals: 2 }],
  ['BGN', { endedIn: 2026, successor: 'EUR', decimals: 2 }],
  ['BYR', { endedIn: 2017, successor: 'BYN', decimals: 0 }],
  ['CUC', { endedIn: 2021, successor: 'CUP', decimals: 2 }],
  ['HRK', { endedIn: 2023, successor: 'EUR', decimals: 2 }],
  ['MRO', { endedIn: 2017, successor: 'MRU', decimals: 2 }],
  ['SLL', { endedIn: 2023, successor: 'SLE', decimals: 2 }],
  ['STD', { endedIn: 2017, successor: 'STN', decimals: 2 }],
  ['VEF', { endedIn: 2018, successor: 'VES', decimals: 2 }],
  ['ZWL', { endedIn: 2024, successor: 'ZWG', decimals: 2 }],
]);

/**
 * Minor units by ISO 4217 code, of the currencies in which new payments are made. The table is a pinned data package and not Intl, which
 * disagrees with ISO for IQD, AFN, ALL and LBP. The package may be older than the standard, so our own list leaves out currencies that have
 * ended. Codes without a minor unit (XAU, XXX, XTS ...) are not in it. The package counts ouguiya and ariary in fifths with one digit; ISO
 * 4217 lists both with two decimals. CONTRIBUTING.md says how the table is renewed.
 */
export const MINOR_UNITS: ReadonlyMap<string, number> = new Map(
  Object.values(iso4217)
    .filter(({ code }) => !ENDED_CURRENCIES.has(code))
    .map((currency) => [currency.code, currency.base === 10 ? currency.exponent : 2]),
);
