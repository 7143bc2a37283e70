import type { Buckets } from './sample.js';

/** The counts of several samples together. Processes of other versions may have other bounds: then each count goes to the next bound of the first. */
export function added(all: readonly Buckets[]): Buckets {
  const [first, ...others] = all;
  if (!first) return { bounds: [], counts: [] };
  const { bounds } = first;
  const counts = [...first.counts];
  for (const other of others) {
    other.counts.forEach((count, index) => {
      const bound = other.bounds[index] ?? Number.POSITIVE_INFINITY;
      const same = bounds[index] === bound ? index : bounds.findIndex((own) => own >= bound);
      const place = same < 0 ? bounds.length : same;
      counts[place] = (counts[place] ?? 0) + count;
    });
  }
  return { bounds, counts };
}

/**
 * The value, in the unit of the bounds, below which this share of all values lies. Values count as evenly spread within a bucket, as in
 * Prometheus; for values above the last bound the result is that bound. Null if there are no values.
 */
export function quantile(share: number, { bounds, counts }: Buckets): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = share * total;
  let before = 0;
  for (const [index, upper] of bounds.entries()) {
    const count = counts[index] ?? 0;
    if (count > 0 && before + count >= rank) {
      const lower = index === 0 ? 0 : (bounds[index - 1] ?? 0);
      return lower + (upper - lower) * Math.max(0, (rank - before) / count);
    }
    before += count;
  }
  return bounds.at(-1) ?? null;
}
