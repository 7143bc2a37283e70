import type { Violation } from './payment-evidence.js';

/** When something was asked for and answered. All times are of one monotonic clock, in milliseconds. */
export interface Span {
  readonly sentAt: number;
  /** Undefined: nobody knows whether and when it happened. */
  readonly endedAt: number | undefined;
}

/** One account's list, to which all clients add and from which they delete at the same time, through every process. */
export interface SharedListHistory {
  readonly account: string;
  /** Those that were acknowledged, by their ids. */
  readonly creates: Map<number, Span>;
  readonly deletes: Map<number, Span>;
  /** What each read showed; a 304: the ids under the tag that it confirmed. */
  readonly reads: { readonly sentAt: number; readonly endedAt: number; readonly ids: readonly number[] }[];
}

export const SHARED_LIST_RULES = {
  complete: 'a list shows every acknowledged create, and no acknowledged delete',
  inOrder: 'ids become visible in their order (decisions T1), and none comes back',
} as const;

/**
 * What must hold of every read, whatever the order of the others. Not a search for one order of all: with creates of all
 * clients at once that would be a search among too many.
 */
export function judgeSharedLists(lists: Iterable<SharedListHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const list of lists) {
    const seen = sightingsOf(list);
    for (const read of list.reads) {
      for (const [rule, what] of judgeRead(read, list, seen)) {
        const journal = [read, { creates: [...list.creates], deletes: [...list.deletes] }];
        violations.push({ rule, subject: `list ${list.account}`, what, journal });
      }
    }
  }
  return violations;
}

type Read = SharedListHistory['reads'][number];
/** Of one id: the first answer that showed it, and the last request whose answer did. */
interface Sightings {
  firstEndedAt: number;
  lastSentAt: number;
}

function* judgeRead(
  { sentAt, endedAt, ids }: Read,
  { creates, deletes }: SharedListHistory,
  seen: ReadonlyMap<number, Sightings>,
): Generator<readonly [rule: string, what: string]> {
  const shown = new Set(ids);
  const highest = ids.at(-1) ?? 0;
  for (const [id, create] of creates) {
    const deletion = deletes.get(id);
    const isThere = (create.endedAt ?? endedAt) < sentAt && !(deletion && deletion.sentAt <= endedAt);
    if (isThere && !shown.has(id)) yield [SHARED_LIST_RULES.complete, `${id} is missing`];
  }
  for (const [id, { endedAt: deletedAt }] of deletes) {
    if (deletedAt !== undefined && deletedAt < sentAt && shown.has(id)) {
      yield [SHARED_LIST_RULES.complete, `${id} is shown after its deletion`];
    }
  }
  for (const [id, { firstEndedAt, lastSentAt }] of seen) {
    if (shown.has(id) || lastSentAt <= endedAt) continue;
    if (id < highest) yield [SHARED_LIST_RULES.inOrder, `${id} came after ${highest}`];
    if (firstEndedAt < sentAt) yield [SHARED_LIST_RULES.inOrder, `${id} was gone, and came back`];
  }
}

function sightingsOf({ reads }: SharedListHistory): Map<number, Sightings> {
  const seen = new Map<number, Sightings>();
  for (const { sentAt, endedAt, ids } of reads) {
    for (const id of ids) {
      const sightings = seen.get(id);
      if (!sightings) seen.set(id, { firstEndedAt: endedAt, lastSentAt: sentAt });
      else {
        sightings.firstEndedAt = Math.min(sightings.firstEndedAt, endedAt);
        sightings.lastSentAt = Math.max(sightings.lastSentAt, sentAt);
      }
    }
  }
  return seen;
}
