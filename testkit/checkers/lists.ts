import { createHash } from 'node:crypto';
import type { Violation } from '../history/history.js';
import type { ListHistory, ListInput, SharedListHistory } from '../history/transactions.js';
import { checkOrder, type Model } from './linearizability.js';

export const LIST_RULES = {
  rightTag: 'no wrong 304: a tag is that of a list that was current between request and answer',
  complete: 'a list shows every acknowledged create, and no acknowledged delete',
  inOrder: 'ids become visible in their order (rule T1), and none comes back',
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

export function checkLists(histories: readonly ListHistory[]): Violation[] {
  return histories.flatMap(({ account, accesses }) =>
    checkOrder(LIST_RULES.rightTag, `list ${account}`, accesses, MODEL),
  );
}

/**
 * Properties of every read, whatever the order of the others. No search for one order of all operations: creates of all clients at once
 * have too many orders.
 */
export function checkSharedLists(lists: readonly SharedListHistory[]): Violation[] {
  return lists.flatMap((list) => {
    const seen = sightingsOf(list);
    return list.reads.flatMap((read) =>
      [...checkComplete(read, list), ...checkOrderOfIds(read, seen)].map(([rule, what]) => {
        const history = [read, { creates: [...list.creates], deletes: [...list.deletes] }];
        return { rule, subject: `list ${list.account}`, what, history };
      }),
    );
  });
}

type Read = SharedListHistory['reads'][number];
/** By id: the first answer that showed it, and the last request whose answer did. */
type Sightings = ReadonlyMap<number, { readonly firstEndedAt: number; readonly lastSentAt: number }>;

type Finding = readonly [rule: string, what: string];

function* checkComplete({ sentAt, endedAt, ids }: Read, { creates, deletes }: SharedListHistory): Generator<Finding> {
  const shown = new Set(ids);
  for (const [id, create] of creates) {
    const deletion = deletes.get(id);
    const isThere = (create.endedAt ?? endedAt) < sentAt && !(deletion && deletion.sentAt <= endedAt);
    if (isThere && !shown.has(id)) yield [LIST_RULES.complete, `${id} is missing`];
  }
  for (const [id, { endedAt: deletedAt = sentAt }] of deletes) {
    if (deletedAt < sentAt && shown.has(id)) yield [LIST_RULES.complete, `${id} is shown after its deletion`];
  }
}

function* checkOrderOfIds({ sentAt, endedAt, ids }: Read, seen: Sightings): Generator<Finding> {
  const shown = new Set(ids);
  const highest = ids.at(-1) ?? 0;
  for (const [id, { firstEndedAt, lastSentAt }] of seen) {
    if (shown.has(id) || lastSentAt <= endedAt) continue;
    if (id < highest) yield [LIST_RULES.inOrder, `${id} came after ${highest}`];
    if (firstEndedAt < sentAt) yield [LIST_RULES.inOrder, `${id} was gone, and came back`];
  }
}

function sightingsOf({ reads }: SharedListHistory): Sightings {
  const seen = new Map<number, { firstEndedAt: number; lastSentAt: number }>();
  for (const { sentAt, endedAt, ids } of reads) {
    for (const id of ids) {
      const { firstEndedAt, lastSentAt } = seen.get(id) ?? { firstEndedAt: endedAt, lastSentAt: sentAt };
      seen.set(id, { firstEndedAt: Math.min(firstEndedAt, endedAt), lastSentAt: Math.max(lastSentAt, sentAt) });
    }
  }
  return seen;
}
