/** Currencies of ISO 4217 whose amounts have other than two decimals. */
const DECIMALS: Readonly<Record<string, number>> = Object.fromEntries([
  ...'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'.split(' ').map((code) => [code, 0]),
  ...'BHD IQD JOD KWD LYD OMR TND'.split(' ').map((code) => [code, 3]),
  ...'CLF UYW'.split(' ').map((code) => [code, 4]),
]);

/** The number of decimals of the currency; two if it is not known. */
export function decimalsOf(currency: string): number {
  return DECIMALS[currency] ?? 2;
}
