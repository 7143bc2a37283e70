import type { Content } from './content.js';
import { ENDED_CURRENCIES, MINOR_UNITS } from './currencies.js';

/** An amount that was checked against its currency: plain decimal text with exactly the currency's decimals. */
export interface Money {
  readonly amount: string;
  readonly currency: string;
}

export interface MoneyProblem {
  /** The sentence that tells the client what is wrong with which member. */
  readonly problem: string;
  /**
   * The requested money, if only something else is wrong: its currency has ended, or its content is refused. A payment that was made before
   * may be the same one.
   */
  readonly money?: Money;
}

/** The requested payment, or the problem with the request's content, which only rule 5 of spec 4.1 reports. */
export type PaymentRequest = RequestedPayment | MoneyProblem;

export interface RequestedPayment extends Money {
  readonly content?: Content | undefined;
}

/** Most digits of an amount in all: a binary float still represents all of them. */
const MAX_DIGITS = 15;
/** ASCII only: upper-casing alone would turn the long s of "uſd" into USD. */
const CURRENCY_CODE = /^[A-Za-z]{3}$/;
const PLAIN_DECIMAL = /^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/;
const ANY_DIGIT_BUT_ZERO = /[1-9]/;

/**
 * Reads an amount and a currency code as sent (rule P4). Returns the canonical Money, or what is wrong with it.
 */
export function readMoney(amount: string, currencyCode: string): Money | MoneyProblem {
  const currency = CURRENCY_CODE.test(currencyCode) ? currencyCode.toUpperCase() : '';
  const ended = ENDED_CURRENCIES.get(currency);
  if (!ended) return readAmount(amount, currency, MINOR_UNITS.get(currency));
  const money = readAmount(amount, currency, ended.decimals);
  if ('problem' in money) return money;
  const problem = `'currency' ${currency} ended in ${ended.endedIn}, and ${ended.successor} replaced it. Convert the amount, and pay in ${ended.successor}.`;
  return { problem, money };
}

function readAmount(amount: string, currency: string, decimals: number | undefined): Money | MoneyProblem {
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

/** Decimal text as others write it: `25`, `25.0` and `025.000` are the same amount. The bound keeps the reading of it short. */
const DECIMAL_OF_OTHERS = /^0{0,30}(\d{1,30})(?:\.(\d{1,30}))?$/;

/**
 * Money as another company names it: decimal text with an ISO code in any letter case. Undefined if it is something else, which is
 * that company's own naming; a problem if no payment can have such money.
 */
export function readNamedMoney(amount: unknown, currencyCode: unknown): Money | MoneyProblem | undefined {
  if (typeof amount !== 'string' || typeof currencyCode !== 'string') return undefined;
  const currency = CURRENCY_CODE.test(currencyCode) ? currencyCode.toUpperCase() : '';
  const [, whole, fraction = ''] = DECIMAL_OF_OTHERS.exec(amount) ?? [];
  if (whole === undefined || !(MINOR_UNITS.has(currency) || ENDED_CURRENCIES.has(currency))) return undefined;
  const digits = fraction.replace(/0+$/, '');
  const read = readMoney(digits === '' ? whole : `${whole}.${digits}`, currency);
  return 'problem' in read ? (read.money ?? read) : read;
}

/** The fingerprint of a payment whose amount nobody knows, because its row was lost: no request is another payment. */
export const UNKNOWN_FINGERPRINT = '';

/** Two requests with the same fingerprint ask for the same payment (rule P6). */
export function fingerprintOf(money: Money): string {
  return `${money.amount} ${money.currency}`;
}

/** The fingerprint of the only payment that a request with this problem may repeat. Undefined if it may repeat none. */
export function fingerprintOfRefused({ money }: MoneyProblem): string | undefined {
  return money && fingerprintOf(money);
}

/** The amount in minor units of the currency, which a number holds exactly because it has at most 15 digits. */
export function unitsOf({ amount }: Money): number {
  return Number(amount.replace('.', ''));
}

/** The text of an amount that has `units` minor units of the currency. */
export function amountOfUnits(units: number, currency: string): string {
  const decimals = ENDED_CURRENCIES.get(currency)?.decimals ?? MINOR_UNITS.get(currency) ?? 0;
  const digits = String(units).padStart(decimals + 1, '0');
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}
