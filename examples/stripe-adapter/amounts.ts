/** https://docs.stripe.com/currencies: all others have two decimals. */
const NO_DECIMALS = new Set('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '));
/** Sent with three, of which the last one must be 0. */
const THREE_DECIMALS = new Set('BHD JOD KWD OMR TND'.split(' '));
/** Without decimals today, and sent with two that are 00. */
const TWO_ZEROS = new Set(['ISK', 'UGX']);

/** The amount as decimal text, with the decimals that Stripe counts. */
export function decimalText(units: number, currency: string): string {
  const code = currency.toUpperCase();
  const decimals = NO_DECIMALS.has(code) ? 0 : THREE_DECIMALS.has(code) ? 3 : 2;
  const digits = `${units}`.padStart(decimals + 1, '0');
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

export type MinorUnits = { readonly units: number } | { readonly problem: string };

/**
 * The amount as Stripe takes it: a whole number of its smallest unit. Idempay sends decimal text with exactly the decimals of ISO 4217;
 * Stripe counts some currencies otherwise, and then a fraction that it cannot take is refused, never rounded.
 */
export function minorUnits(amount: string, currency: string): MinorUnits {
  const [, whole = '', fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(amount) ?? [];
  const decimals = NO_DECIMALS.has(currency) ? 0 : THREE_DECIMALS.has(currency) ? 3 : 2;
  const taken = fraction.slice(0, decimals).padEnd(decimals, '0');
  const isLossless = whole !== '' && /^0*$/.test(fraction.slice(decimals));
  const isTaken = decimals < 3 ? !(TWO_ZEROS.has(currency) && /[1-9]/.test(taken)) : taken.endsWith('0');
  const units = Number(`${whole}${taken}`);
  if (!isLossless || !isTaken || !Number.isSafeInteger(units)) {
    return { problem: `${amount} ${currency} is not an amount that Stripe can charge` };
  }
  return { units };
}
