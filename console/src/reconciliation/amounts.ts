/** Amounts are whole numbers of this part of a unit of the currency, so that sums are exact. */
const DECIMALS = 8;
const MOST_DIGITS = 18;

const PLAIN = /^(-?)(\d+)(?:\.(\d+))?$/;
/** `1,000`, `1 000.50`, `1'000`, `1.000.000,00`. `1.000` alone is one with three decimals. */
const GROUPED = /^-?\d{1,3}(?:[,'’\s]\d{3})+(?:[.,]\d+)?$|^-?\d{1,3}(?:\.\d{3})+(?:,\d+|\.\d{3})$/;
const COMMA = /^-?\d+,\d+$/;

export type Amount = { readonly units: bigint } | { readonly problem: string };

/** Reads a plain decimal number; zeros at its ends do not matter: `100.5` is `100.50`. Refuses ambiguous numbers. */
export function readAmount(text: string): Amount {
  const [, sign = '', whole = '', decimals = ''] = PLAIN.exec(text) ?? [];
  if (whole === '') return { problem: problemOf(text) };
  const significant = withoutZerosAtEnd(decimals);
  if (significant.length > DECIMALS || whole.replace(/^0+/, '').length > MOST_DIGITS) {
    return { problem: `The amount “${text}” has more than ${MOST_DIGITS} digits, or more than ${DECIMALS} decimals.` };
  }
  const units = BigInt(whole + significant.padEnd(DECIMALS, '0'));
  return { units: sign === '' ? units : -units };
}

/** The plain decimal number, with at least so many decimals. */
export function amountOf(units: bigint, atLeastDecimals = 0): string {
  const digits = (units < 0n ? -units : units).toString().padStart(DECIMALS + 1, '0');
  const decimals = withoutZerosAtEnd(digits.slice(-DECIMALS)).padEnd(atLeastDecimals, '0');
  return `${units < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}${decimals === '' ? '' : `.${decimals}`}`;
}

/** In one pass: an expression such as `0+$` starts again at every zero, and a field of a statement may have a million. */
function withoutZerosAtEnd(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}

export const decimalsOf = (text: string): number => PLAIN.exec(text)?.[3]?.length ?? 0;

/** Whole numbers by currency. */
export type Totals = Map<string, bigint>;

/** By currency: the most decimals that an amount on either side has. */
export type Decimals = Map<string, number>;

export function addTo(totals: Totals, currency: string, units: bigint): void {
  totals.set(currency, (totals.get(currency) ?? 0n) + units);
}

export function noteDecimals(decimals: Decimals, currency: string, amount: string): void {
  const found = decimalsOf(amount);
  if (found > (decimals.get(currency) ?? -1)) decimals.set(currency, found);
}

/** Exact, with the decimals that amounts of the currency have; by the name of the currency. */
export function totalTexts(totals: Totals, decimals: Decimals): readonly { currency: string; amount: string }[] {
  return [...totals]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([currency, units]) => ({ currency, amount: amountOf(units, decimals.get(currency)) }));
}

function problemOf(text: string): string {
  if (text === '') return 'It has no amount.';
  if (GROUPED.test(text)) {
    return `The amount “${text}” has thousands separators, which mean different numbers in different countries. Export amounts without them: 1000.50.`;
  }
  if (COMMA.test(text)) return `The amount “${text}” has a comma. Export amounts with a decimal point: 100.50.`;
  return `The amount “${text}” is not a plain decimal number such as 100.50.`;
}
