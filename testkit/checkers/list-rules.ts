import { createHash } from 'node:crypto';
import { type Model, type Operation, whyNoOrder } from './linearizability.js';
import type { Violation } from './payment-evidence.js';

/** A create or delete that moved the list to these ids, or a read of it, told by its tag. */
export type ListInput = { readonly movedTo: string } | 'read';
export type ListAccess = Operation<ListInput, string> & { readonly status?: number };

/** The list of one account, whose creates and deletes all come from one client, one after the other. */
export interface ListHistory {
  readonly account: string;
  readonly accesses: ListAccess[];
}

export const LIST_RULES = {
  rightTag: 'no wrong 304: a tag is that of a list that was current between request and answer',
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

export function judgeLists(histories: Iterable<ListHistory>): Violation[] {
  const violations: Violation[] = [];
  for (const { account, accesses } of histories) {
    const why = whyNoOrder(accesses, MODEL);
    if (why === undefined) continue;
    const what = `${accesses.length} accesses: ${why}`;
    violations.push({ rule: LIST_RULES.rightTag, subject: `list ${account}`, what, journal: accesses });
  }
  return violations;
}
