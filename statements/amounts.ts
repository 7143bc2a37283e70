import { decimalsOf } from './currencies.js';
import { clipped } from './texts.js';

/** Amounts are whole numbers of this part of a unit of the currency, so that sums are exact. */
const DECIMALS = 8;
const MOST_DIGITS = 18;

/** The mark before the decimals. */
export type DecimalMark = '.' | ',';

/** Nearly every amount: it can be read in one way only. */
const USUAL = /^-?\d+(?:\.\d{1,2})?$/;
/** Also `+5`, `5,00-` and `(5.00)`, as accountants write them. */
const SIGNED = /^(?:([-+\u2212])?\s?(\d[\d.,'\u2019\s]*?)(-)?|\((\d[\d.,'\u2019\s]*)\))$/;

/** By its mark. In groups of three, or of two as in India; the groups of one number have one separator. */
const NUMBERS: Readonly<Record<DecimalMark, RegExp>> = {
  '.': /^(?:(\d+)|([1-9]\d{0,2}(?:([,'\u2019\s])\d{2,3})(?:\3\d{2,3})*))(?:\.(\d+))?$/,
  ',': /^(?:(\d+)|([1-9]\d{0,2}(?:([.'\u2019\s])\d{2,3})(?:\3\d{2,3})*))(?:,(\d+))?$/,
};
const LAST_GROUP = /[.,'\u2019\s]\d{3}$/;

export type Amount =
  /** `mark`: what the text shows of the decimal mark of its column. */
  | { readonly units: bigint; readonly mark: DecimalMark | undefined }
  | { readonly problem: string }
  /** `1.000`: one, or a thousand. */
  | { readonly either: Readonly<Record<DecimalMark, bigint>> };

/** Reads an amount that can be read in one way only; with `mark` in the way of its column. */
export function readAmount(text: string, mark?: DecimalMark): Amount {
  const trimmed = text.trim();
  if (USUAL.test(trimmed) && mark !== ',') return unitsIn(trimmed.replace('-', ''), '.', trimmed.startsWith('-'), text);
  const [, sign, number, minusBehind, inParentheses] = SIGNED.exec(withoutCurrency(trimmed)) ?? [];
  const digits = (number ?? inParentheses)?.trim();
  if (digits === undefined) return { problem: problemOf(text) };
  const isNegative = sign === '-' || sign === '\u2212' || minusBehind !== undefined || inParentheses !== undefined;
  const read = (by: DecimalMark) => (isNumber(digits, by) ? unitsIn(digits, by, isNegative, text) : undefined);
  if (mark !== undefined)
    return read(mark) ?? { problem: `The amount “${clipped(text)}” is no number with “${mark}” before its decimals.` };
  const [point, comma] = [read('.'), read(',')];
  const one = point ?? comma;
  if (!one) return { problem: problemOf(text) };
  if (!point || !comma || !('units' in point) || !('units' in comma)) return one;
  return point.units === comma.units
    ? { units: point.units, mark: undefined }
    : { either: { '.': point.units, ',': comma.units } };
}

/** Why an amount that may be read in two ways is not read. */
export function problemOfEither(text: string): string {
  return `The amount “${clipped(text)}” may have a thousands separator or three decimals, and no other line says which. Say what stands before the decimals, a point or a comma.`;
}

/** The reason why the reading by the mark of the column cannot be meant. Undefined if it can. */
export function problemOfDecimals(text: string, units: bigint, currency: string): string | undefined {
  const most = Math.max(decimalsOf(currency), 2);
  if (units % 10n ** BigInt(DECIMALS - most) === 0n) return undefined;
  return `The amount “${clipped(text)}” has more decimals than ${currency} has.`;
}

/** The plain decimal number, with the decimals of the currency at least: it can be read in one way only. */
export function amountOf(units: bigint, currency: string): string {
  const digits = (units < 0n ? -units : units).toString().padStart(DECIMALS + 1, '0');
  const decimals = withoutZerosAtEnd(digits.slice(-DECIMALS)).padEnd(decimalsOf(currency), '0');
  return `${units < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}${decimals === '' ? '' : `.${decimals}`}`;
}

/** Whole numbers by currency. */
export type Totals = Map<string, bigint>;

export function addTo(totals: Totals, currency: string, units: bigint): void {
  totals.set(currency, (totals.get(currency) ?? 0n) + units);
}

/** Exact, by the name of the currency. */
export function totalTexts(totals: Totals): readonly { currency: string; amount: string }[] {
  return [...totals]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([currency, units]) => ({ currency, amount: amountOf(units, currency) }));
}

function isNumber(digits: string, mark: DecimalMark): boolean {
  const found = NUMBERS[mark].exec(digits);
  const grouped = found?.[2];
  return found !== null && (grouped === undefined || LAST_GROUP.test(grouped));
}

/** `$5.00`, `-$5.00`, `EUR 5.00`, `5,00 €`. */
const CURRENCY_BEFORE = /^([-+\u2212(]?)(\p{Sc}|[A-Z]{3}\s)\s?/u;
const CURRENCY_BEHIND = /\s?(\p{Sc}|\s[A-Z]{3})(\)?)$/u;

function withoutCurrency(text: string): string {
  return text.replace(CURRENCY_BEFORE, '$1').replace(CURRENCY_BEHIND, '$2');
}

/** Why an amount contradicts the currency of its line, such as `100.00 USD` in a line in EUR. Undefined if it does not. */
export function problemOfCurrency(text: string, currency: string): string | undefined {
  const trimmed = text.trim();
  if (USUAL.test(trimmed)) return undefined;
  const stated = [CURRENCY_BEFORE.exec(trimmed)?.[2], CURRENCY_BEHIND.exec(trimmed)?.[1]];
  const other = stated.map((mark) => mark?.trim()).find((mark) => mark !== undefined && !mayMean(mark, currency));
  return other && `The amount “${clipped(text)}” is in ${other}, and its line in ${currency}.`;
}

const SIGN = /^\p{Sc}$/u;

/**
 * A code is one currency. A sign is the one of many: `$` of some twenty dollars and pesos, but never of EUR, GBP or CHF. So it contradicts each
 * currency that is not written with it (Unicode CLDR). `₨` and `﷼`, for which CLDR has letters, contradict none.
 */
function mayMean(mark: string, currency: string): boolean {
  // Full-width signs, as in Japan, become the usual ones, and those two become letters.
  const sign = mark.normalize('NFKC');
  if (SIGN.test(sign)) return signOf(currency).includes(sign);
  return SIGN.test(mark) || mark === currency;
}

const signs = new Map<string, string>();

/** `$` for USD and CAD, `R$` for BRL, and the code for a currency without a sign. */
function signOf(currency: string): string {
  const known = signs.get(currency);
  if (known !== undefined) return known;
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay: 'narrowSymbol' });
  const sign = format.formatToParts(0).find(({ type }) => type === 'currency')?.value ?? currency;
  signs.set(currency, sign);
  return sign;
}

function unitsIn(digits: string, mark: DecimalMark, isNegative: boolean, text: string): Amount {
  const at = digits.lastIndexOf(mark);
  const whole = (at < 0 ? digits : digits.slice(0, at)).replace(/\D/g, '');
  const decimals = withoutZerosAtEnd(at < 0 ? '' : digits.slice(at + 1));
  if (decimals.length > DECIMALS || whole.replace(/^0+/, '').length > MOST_DIGITS) {
    return {
      problem: `The amount “${clipped(text)}” has more than ${MOST_DIGITS} digits, or more than ${DECIMALS} decimals.`,
    };
  }
  const units = BigInt(whole + decimals.padEnd(DECIMALS, '0'));
  return { units: isNegative ? -units : units, mark: /[.,]/.test(digits) ? mark : undefined };
}

/** In one pass: an expression such as `0+$` starts again at every zero, and a field of a statement may have a million. */
function withoutZerosAtEnd(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}

function problemOf(text: string): string {
  if (text.trim() === '') return 'It has no amount.';
  return `The amount “${clipped(text)}” is no decimal number such as 100.50.`;
}
