const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const ROUGH = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const SHARE = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const BYTES = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

/** Numbers in the reader's locale. */
export const countText = (value: number) => WHOLE.format(value);
/** Three digits that matter; all of a whole number. */
export const roughText = (value: number) => (Math.abs(value) >= 100 ? WHOLE : ROUGH).format(value);
/** A share from 0 to 1, as per cent. */
export const shareText = (value: number) => SHARE.format(value);

export function bytesText(bytes: number): string {
  const step = bytes < 1_000 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log10(bytes) / 3));
  return new Intl.NumberFormat(undefined, {
    style: 'unit',
    unit: BYTES[step] ?? 'byte',
    unitDisplay: step === 0 ? 'long' : 'short',
    maximumSignificantDigits: 3,
  }).format(bytes / 1_000 ** step);
}

/** A point before the decimals and narrow blanks between thousands, for every reader: `1.000` and `1,000` mean different amounts to different people. */
export function amountText(amount: string): string {
  const [, sign, whole = '', decimals = ''] = /^(-?)(\d+)(\.\d+)?$/.exec(amount) ?? [];
  if (whole === '') return amount;
  const first = whole.length % 3;
  const groups = [whole.slice(0, first), ...(whole.slice(first).match(/\d{3}/g) ?? [])].filter((group) => group !== '');
  return `${sign}${groups.join('\u202f')}${decimals}`;
}
