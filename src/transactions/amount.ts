/** Rule T2: every reader of JSON numbers reads 15 digits exactly, and a 64-bit count of ten-thousandths holds them. */
const MAX_WHOLE_DIGITS = 14;
const MAX_DECIMALS = 4;
const MAX_DIGITS = 15;
const PLAIN_DECIMAL = /^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/;

/** An amount with an exponent of two digits needs fewer: 15 digits, 99 zeros, the exponent. */
const MAX_NUMBER_LENGTH = 128;
/** Exponents of two digits: enough for every amount, and few enough zeros to write out. */
const JSON_NUMBER = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,2}))?$/;

/**
 * The exact value of a JSON number as a plain decimal without trailing zeros: Java writes ten million as `1.0E7` (rule T2). Text that is no
 * such number is given back unchanged, to be refused.
 */
export function plainDecimalOf(number: string): string {
  if (number.length > MAX_NUMBER_LENGTH) return number;
  const [, whole, fraction = '', exponent = '0'] = JSON_NUMBER.exec(number) ?? [];
  if (whole === undefined) return number;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point <= 0) return shortest('0', '0'.repeat(-point) + digits);
  const before = digits
    .slice(0, point)
    .padEnd(point, '0')
    .replace(/^0+(?=\d)/, '');
  return shortest(before, digits.slice(point));
}

/** The shortest plain decimal of the same value, or the sentence that says what is wrong with the text. */
export function readAmount(text: string): string | { problem: string } {
  if (!PLAIN_DECIMAL.test(text)) {
    return {
      problem:
        "'amount' must be a plain decimal number such as 100.5, without sign or leading zeros. Only a JSON number may have an exponent, of at most two digits.",
    };
  }
  const [whole = '', fraction = ''] = text.split('.');
  if (
    whole.length > MAX_WHOLE_DIGITS ||
    fraction.length > MAX_DECIMALS ||
    whole.length + fraction.length > MAX_DIGITS
  ) {
    return {
      problem: `'amount' must have at most ${MAX_WHOLE_DIGITS} digits before and ${MAX_DECIMALS} after the point, ${MAX_DIGITS} in all.`,
    };
  }
  if (!/[1-9]/.test(text)) return { problem: "'amount' must be more than 0." };
  return shortest(whole, fraction);
}

/** The 64-bit count of ten-thousandths that the stores keep. */
export function toTenThousandths(amount: string): bigint {
  const [whole = '', fraction = ''] = amount.split('.');
  return BigInt(whole + fraction.padEnd(MAX_DECIMALS, '0'));
}

/** From the decimal text of that count, so that no binary float is ever between. */
export function fromTenThousandths(count: string): string {
  const digits = count.padStart(MAX_DECIMALS + 1, '0');
  return shortest(digits.slice(0, -MAX_DECIMALS), digits.slice(-MAX_DECIMALS));
}

function shortest(whole: string, fraction: string): string {
  let end = fraction.length;
  // No expression: one for zeros at the end starts again at every zero, which is quadratic.
  while (fraction[end - 1] === '0') end -= 1;
  return end === 0 ? whole : `${whole}.${fraction.slice(0, end)}`;
}
