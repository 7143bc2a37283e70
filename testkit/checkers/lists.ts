import { createHash } from 'node:crypto';
import type { Violation } from '../history/history.js';
import type { ListHistory, ListInput, SharedListHistory } from '../history/transactions.js';
import { type Model, whyNoOrder } from './linearizability.js';

export const LIST_RULES = {
  rightTag: 'no wrong 304: a tag is that of a list that was current between request and answer',
  complete: 'a list shows every acknowledged create, and no acknowledged delete',
  inOrder: 'ids become visible in their order (decisions T1), and none comes back',
} as const;

const MODEL: Model<string, ListInput, string> = {
  initial: listTag([]),
  step(tag, input, output) {
    if (input !== 'read') return input.movedTo;
    return output === undefined || output === tag ? tag : undefined;
  },
  name: (tag) => tag,
};

/** Spec 4.3 list rule 2: the ids in list order, then their count. */
export function listTag(ids: readonly number[]): string {
  return createHash('md5')
    .update(`${ids.join('')}${ids.length}`)
    .digest('hex');
}

export function checkLists(histories: Iterable<ListHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const { account, accesses } of histories) {
    const why = whyNoOrder(accesses, MODEL);
    if (why === undefined) continue;
    const what = `${accesses.length} accesses: ${why}`;
    violations.push({ rule: LIST_RULES.rightTag, subject: `list ${account}`, what, history: accesses });
  }
  return violations;
}

/**
 * What must hold of every read, whatever the order of the others. Not a search for one order of all: with creates of all
 * clients at once that would be a search among too many.
 */
export function checkSharedLists(lists: Iterable<SharedListHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const list of lists) {
    const seen = sightingsOf(list);
    for (const read of list.reads) {
      for (const [rule, what] of checkRead(read, list, seen)) {
        const history = [read, { creates: [...list.creates], deletes: [...list.deletes] }];
        violations.push({ rule, subject: `list ${list.account}`, what, history });
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

function* checkRead(
  { sentAt, endedAt, ids }: Read,
  { creates, deletes }: SharedListHistory,
  seen: ReadonlyMap<number, Sightings>,
): Generator<readonly [rule: string, what: string]> {
  const shown = new Set(ids);
  const highest = ids.at(-1) ?? 0;
  for (const [id, create] of creates) {
    const deletion = deletes.get(id);
    const isThere = (create.endedAt ?? endedAt) < sentAt && !(deletion && deletion.sentAt <= endedAt);
    if (isThere && !shown.has(id)) yield [LIST_RULES.complete, `${id} is missing`];
  }
  for (const [id, { endedAt: deletedAt }] of deletes) {
    if (deletedAt !== undefined && deletedAt < sentAt && shown.has(id)) {
      yield [LIST_RULES.complete, `${id} is shown after its deletion`];
    }
  }
  for (const [id, { firstEndedAt, lastSentAt }] of seen) {
    if (shown.has(id) || lastSentAt <= endedAt) continue;
    if (id < highest) yield [LIST_RULES.inOrder, `${id} came after ${highest}`];
    if (firstEndedAt < sentAt) yield [LIST_RULES.inOrder, `${id} was gone, and came back`];
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
