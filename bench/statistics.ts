import { markdownTable } from '../testkit/markdown-table.js';

export type Spread = Readonly<Record<'median' | 'lowest' | 'highest', number>>;
export type Cell = string | number | undefined;

/** The median of rounds, and how far to trust it. */
export function spread(values: readonly number[]): Spread {
  return { median: median(values), lowest: Math.min(...values), highest: Math.max(...values) };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [below = Number.NaN, above = Number.NaN] = [sorted[middle - 1], sorted[middle]];
  return sorted.length % 2 === 1 ? above : (below + above) / 2;
}

/** Numbers are rounded to what a reader compares. */
export function roundedTable(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return markdownTable(
    head,
    rows.map((row) => row.map(shown)),
  );
}

function shown(value: Cell): string {
  if (typeof value !== 'number') return value ?? '';
  if (value === 0) return '0';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(value < 1 ? 2 : 3)));
}

export function sumOf(numbers: Readonly<Record<string, number>> = {}, isWanted = (_name: string) => true): number {
  return Object.entries(numbers).reduce((sum, [name, value]) => (isWanted(name) ? sum + value : sum), 0);
}

export function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
