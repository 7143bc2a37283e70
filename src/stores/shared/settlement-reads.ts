import type { SettlementPage, SettlementPlace, SettlementQuestion } from '../../payments/ports/settlements.js';
import { BELOW_ALL_KEYS } from './payment-history.js';
import { type HistoryRow, recordOf } from './payment-rows.js';

/**
 * Before the last place of another incarnation, or before its beginning, a reader begins again this much earlier. It covers what was settled
 * before the other incarnation was noticed, and clocks of two servers that differ.
 */
export const BEGIN_EARLIER_US = 10 * 60_000_000;

const ABOVE_ALL_KEYS = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** One row of a page, with what the statement says of the feed; `key` is null if the page has no rows. */
export type SettlementRow = Omit<HistoryRow, 'key'> & {
  readonly key: string | null;
  readonly place_us: number;
  readonly incarnation: string;
  /** Settlements up to this time may have been removed; null if none was. */
  readonly removed_us: number | null;
  /** If the page is short, the time and the key of the last row that it could read; null if it has read everything. */
  readonly read_until_us: number | null;
  readonly last_key: string | null;
  /** The key of the row after that one, if it has the same time. */
  readonly next_key: string | null;
};

/** The place at which a page begins, as both databases compare it: after the time and the key. */
export function startOf({ after }: SettlementQuestion): { readonly atUs: number; readonly key: string } {
  return { atUs: after?.atUs ?? 0, key: after?.key ?? BELOW_ALL_KEYS };
}

/** The page of rows that were read together with the state of the feed. `beganUs`: the first beginning of a later incarnation. */
export async function settlementPageOf(
  rows: readonly SettlementRow[],
  { after, bound, limit }: SettlementQuestion,
  beganUs: (incarnation: string) => Promise<number>,
): Promise<SettlementPage> {
  const [first] = rows;
  if (!first) throw new Error('the table of incarnations is empty: restore its rows from a backup');
  const { incarnation, removed_us: removedUs, read_until_us: readUntilUs } = first;
  const oldestUs = removedUs === null ? 0 : removedUs + 1;
  if (after && after.incarnation !== incarnation) {
    const fromUs = Math.min(after.atUs, await beganUs(after.incarnation)) - BEGIN_EARLIER_US;
    return { state: 'other incarnation', fromUs: Math.max(fromUs, oldestUs) };
  }
  if (bound.incarnation !== incarnation) return { state: 'bound is over' };
  if (after && after.atUs < oldestUs) return { state: 'removed', fromUs: oldestUs };
  const read = rows.filter((row): row is SettlementRow & { readonly key: string } => row.key !== null);
  const settlements = read.map((row) => ({ ...recordOf(row), settledAtUs: row.place_us }));
  const last = read.at(-1);
  if (last && read.length >= limit) {
    return { state: 'page', settlements, next: { atUs: last.place_us, key: last.key }, isLast: false };
  }
  if (readUntilUs !== null) return { state: 'page', settlements, next: placeBehind(readUntilUs, first), isLast: false };
  const next = after && after.atUs >= bound.atUs ? { atUs: after.atUs, key: after.key } : { atUs: bound.atUs };
  return { state: 'page', settlements, next, isLast: true };
}

/** Many rows may have one time. Those at which the reading ended may be of other clients, so that their keys are named to nobody. */
function placeBehind(
  atUs: number,
  { last_key: last, next_key: next }: Pick<SettlementRow, 'last_key' | 'next_key'>,
): SettlementPlace {
  return last === null || next === null ? { atUs: atUs + 1 } : { atUs, key: keyBetween(last, next) };
}

/**
 * A place at the lower of two keys or behind it, and before the upper one. It has the digits that both begin with and one more, so that the
 * random digits of a key stay unknown: of ten thousand keys, two share about four of these.
 */
function keyBetween(lower: string, upper: string): string {
  let shared = 0;
  while (lower[shared] === upper[shared]) shared += 1;
  return lower.slice(0, shared + 1) + ABOVE_ALL_KEYS.slice(shared + 1);
}
