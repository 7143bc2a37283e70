import * as iso4217 from 'dinero.js/currencies';

/** An amount that was checked against its currency: plain decimal text with exactly the currency's decimals. */
export interface Money {
  readonly amount: string;
  readonly currency: string;
}

/**
 * Minor units by ISO 4217 code. The table is a pinned data package and not Intl, which disagrees with ISO for IQD, AFN,
 * ALL and LBP. Codes without a minor unit (XAU, XXX, XTS ...) are not in it. The package counts ouguiya and ariary in
 * fifths with one digit; ISO 4217 lists both with two decimals.
 */
export const MINOR_UNITS: ReadonlyMap<string, number> = new Map(
  Object.values(iso4217).map((currency) => [currency.code, currency.base === 10 ? currency.exponent : 2]),
);

/** The codes of `MINOR_UNITS`, for lists to choose from. */
export const CURRENCIES: readonly string[] = [...MINOR_UNITS.keys()];

/** Most digits of an amount in all: a binary float still represents all of them. */
const MAX_DIGITS = 15;
/** ASCII only: upper-casing alone would turn the long s of "uſd" into USD. */
const CURRENCY_CODE = /^[A-Za-z]{3}$/;
const PLAIN_DECIMAL = /^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/;
const ANY_DIGIT_BUT_ZERO = /[1-9]/;

/**
 * Reads an amount and a currency code as sent (decisions P4). Returns the canonical Money, or the sentence that tells
 * the client what is wrong with which member.
 */
export function readMoney(amount: string, currencyCode: string): Money | { problem: string } {
  const currency = CURRENCY_CODE.test(currencyCode) ? currencyCode.toUpperCase() : '';
  const decimals = MINOR_UNITS.get(currency);
  if (decimals === undefined) {
    return { problem: "'currency' must be an ISO 4217 code of a currency with a minor unit, such as USD." };
  }
  if (!PLAIN_DECIMAL.test(amount)) {
    return {
      problem:
        "'amount' must be a plain decimal number such as 100.50, without sign, exponent, spaces or leading zeros.",
    };
  }
  const point = amount.indexOf('.');
  const fractionDigits = point < 0 ? 0 : amount.length - point - 1;
  const digits = point < 0 ? amount.length : amount.length - 1;
  if (digits > MAX_DIGITS) return { problem: `'amount' must have at most ${MAX_DIGITS} digits in all.` };
  if (fractionDigits > decimals) {
    return { problem: `'amount' has more decimals than ${currency} has (${decimals}).` };
  }
  if (!ANY_DIGIT_BUT_ZERO.test(amount)) return { problem: "'amount' must be more than 0." };
  if (fractionDigits === decimals) return { amount, currency };
  return { amount: (point < 0 ? `${amount}.` : amount).padEnd(digits - fractionDigits + 1 + decimals, '0'), currency };
}

/** Two requests with the same fingerprint ask for the same payment (decisions P6). */
export function fingerprintOf(money: Money): string {
  return `${money.amount} ${money.currency}`;
}
