import type { Violation } from '../history/history.js';
import { listTag } from './lists.js';

export const RESTORED_RULES = {
  oneCharge: 'a restore charges no key twice',
  noIdTwice: 'a restore gives no id twice',
  notStale: 'after a restore a read by id shows the row',
  rightTag: 'after a restore a 304 confirms the tag of the list that is there',
} as const;

/** What was seen at rest after the database was set back. What the backup lacks is lost, and is no violation. */
export interface RestoredEvidence {
  /** The rows that the restored database has. */
  readonly rows: readonly {
    readonly id: number;
    readonly status: string;
    readonly from: string;
    readonly to: string;
  }[];
  /** What each process shows of each id that was ever acknowledged; `gone` stands for 404. */
  readonly reads: readonly { readonly id: number; readonly status: string; readonly at: string }[];
  /** Whether a list was answered with 304 to a tag of before the restore. */
  readonly lists: readonly { readonly account: string; readonly tag: string; readonly isConfirmed: boolean }[];
  /** The ids of all creates that were ever acknowledged. */
  readonly ids: readonly number[];
  /** The references of all charges. */
  readonly charges: readonly string[];
}

export function checkRestored({ rows, reads, lists, ids, charges }: RestoredEvidence): Violation[] {
  const statusOf = new Map(rows.map(({ id, status }) => [id, status]));
  const stale = reads.filter(({ id, status }) => status !== (statusOf.get(id) ?? 'gone'));
  const wrong = lists.filter(({ account, tag, isConfirmed }) => {
    const shown = rows.filter(({ from, to }) => account === from || account === to).map(({ id }) => id);
    return isConfirmed !== (listTag(shown.toSorted((one, other) => one - other)) === tag);
  });
  return [
    ...twice(charges).map((key) => violation(RESTORED_RULES.oneCharge, key, 'charged twice')),
    ...twice(ids).map((id) => violation(RESTORED_RULES.noIdTwice, `${id}`, 'given twice')),
    ...stale.map(({ id, status, at }) =>
      violation(RESTORED_RULES.notStale, `${id}`, `${status} at ${at}, the row: ${statusOf.get(id) ?? 'gone'}`),
    ),
    ...wrong.map(({ account, tag, isConfirmed }) =>
      violation(RESTORED_RULES.rightTag, account, `${tag} was ${isConfirmed ? '' : 'not '}confirmed`),
    ),
  ];
}

function twice<T>(items: readonly T[]): T[] {
  const seen = new Set<T>();
  return items.filter((item) => seen.size === seen.add(item).size);
}

function violation(rule: string, subject: string, what: string): Violation {
  return { rule, subject, what, history: [] };
}
