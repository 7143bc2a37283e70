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
