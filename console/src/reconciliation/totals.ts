import { amountOf, decimalsOf } from './amounts.js';

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
