/**
 * The consequences if a database has lost its newest rows, by a failover or because it is a backup, on both deployments
 * (docs/engineering/decisions/0020).
 */

/**
 * Left out of transaction ids and of list versions: clients know the lost ones, which must not be given again (rule
 * T1). More than a day's creates at 10,000 each second, so it covers a standby that was a day behind and a nightly
 * backup; there is room for 900,000 such gaps.
 */
export const GAP = 1_000_000_000;

/**
 * How far the clock by which keys were generated may have been ahead of the clock that reads this. Longer is not better: if
 * the processor does not deduplicate, an operator decides about each payment of such a key.
 */
export const CLOCKS_DIFFER_MS = 10_000;

/** The processors of this many microseconds before the newest row, and of this many rows at most, may know what was lost (rule P14). */
export const LAST_DAY_US = 86_400_000_000;
export const MOST_LAST_ROWS = 100_000;

export const REPLACED =
  'The database was replaced by a standby or a restored copy: rows may be lost. The cache starts anew, transaction ids go on after a gap, and a first payment with a key from before is looked up at the processor.';

/** For how long, of the time that was seen, the first claim of a reference asks the processor after rows were lost: `references.md`. */
export const LOOK_UP_REFERENCES_MS = 30 * 86_400_000;

/** The lowest computed key, which is above every generated one. */
export const FIRST_COMPUTED_KEY = 'f0000000-0000-8000-8000-000000000000';
