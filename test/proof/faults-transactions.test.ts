import { describe, expect, test } from 'vitest';
import { checkLists, checkSharedLists, LIST_RULES, listTag } from '../../testkit/checkers/lists.js';
import { checkTransactions, TRANSACTION_RULES } from '../../testkit/checkers/transactions.js';
import type {
  Access,
  Input,
  ListAccess,
  Output,
  SharedListHistory,
  Span,
  Status,
} from '../../testkit/history/transactions.js';

/** Accesses one after the other, ten milliseconds each; an output of undefined was never answered. */
function accesses(...all: [Input, Output | undefined, number?][]): Access[] {
  return all.map(([input, output, invokedAt], index) => {
    const from = invokedAt ?? index * 20;
    return { invokedAt: from, completed: output === undefined ? undefined : { at: from + 10, output }, input };
  });
}
const READ: Input = { what: 'read' };
const DELETE: Input = { what: 'delete' };
const to = (status: Status, onlyFrom?: Status): Input => ({ what: 'change', status, onlyFrom });
/** Never answered. */
const maybeFlagged: [Input, undefined] = [to('FLAGGED'), undefined];

describe('the checker of transactions', () => {
  test.each<[string, Access[]]>([
    ['reads of the last change', accesses([READ, 'PENDING'], [to('FLAGGED'), 'done'], [READ, 'FLAGGED'])],
    ['a change that may have happened', accesses(maybeFlagged, [READ, 'PENDING'], [READ, 'FLAGGED'])],
    ['a change that never happened', accesses(maybeFlagged, [READ, 'PENDING'], [READ, 'PENDING'])],
    ['a delete', accesses([DELETE, 'done'], [READ, 'gone'], [to('FLAGGED'), 'gone'], [DELETE, 'gone'])],
    [
      'a final status',
      accesses([to('FAILED'), 'done'], [to('FLAGGED'), 'final'], [to('FAILED'), 'done'], [READ, 'FAILED']),
    ],
    ['a change only for another status', accesses([to('FLAGGED', 'ON_HOLD'), 'not as expected'])],
    [
      'two changes at once, in either order',
      accesses([to('FLAGGED'), 'done', 0], [to('PENDING'), 'done', 5], [READ, 'PENDING'], [READ, 'PENDING']),
    ],
  ])('accepts %s', (_what, history) => {
    expect(checkTransactions([{ id: 1, status: 'PENDING', accesses: history }])).toEqual([]);
  });

  test.each<[string, Access[]]>([
    ['a read older than an acknowledged change', accesses([to('FLAGGED'), 'done'], [READ, 'PENDING'])],
    ['a read of a deleted one', accesses([DELETE, 'done'], [READ, 'PENDING'])],
    ['one that was never deleted and is gone', accesses([READ, 'gone'])],
    ['a status that nobody set', accesses([READ, 'BLOCKED'])],
    ['a read that goes back behind another read', accesses(maybeFlagged, [READ, 'FLAGGED'], [READ, 'PENDING'])],
    ['a way out of a final status', accesses([to('FAILED'), 'done'], [to('FLAGGED'), 'done'])],
    ['a refusal without reason', accesses([to('FLAGGED'), 'final'])],
    [
      'an acknowledged change that is lost',
      accesses([to('FLAGGED'), 'done'], [to('ON_HOLD'), 'done'], [READ, 'FLAGGED']),
    ],
  ])('rejects %s', (_what, history) => {
    expect(checkTransactions([{ id: 1, status: 'PENDING', accesses: history }])).toMatchObject([
      { rule: TRANSACTION_RULES.notStale, subject: 'transaction 1', history },
    ]);
  });
});

const read = (invokedAt: number, ids: number[], status = 304): ListAccess => {
  return { invokedAt, completed: { at: invokedAt + 10, output: listTag(ids) }, input: 'read', status };
};
const moved = (invokedAt: number, ids: number[]): ListAccess => {
  const movedTo = listTag(ids);
  return { invokedAt, completed: { at: invokedAt + 10, output: movedTo }, input: { movedTo } };
};

describe('the checker of lists', () => {
  test.each<[string, ListAccess[]]>([
    ['an empty list', [read(0, [])]],
    ['either list while one is being created', [moved(0, [1]), moved(50, [1, 2]), read(45, [1]), read(55, [1, 2])]],
    ['a list that is again what it was', [moved(0, [1]), moved(20, [1, 2]), moved(40, [1]), read(60, [1])]],
  ])('accepts %s', (_what, accesses) => {
    expect(checkLists([{ account: 'a', accesses }])).toEqual([]);
  });

  test.each<[string, ListAccess[]]>([
    ['a 304 for a list that has grown', [moved(0, [1]), moved(20, [1, 2]), read(40, [1])]],
    ['a 304 for a list that has shrunk', [moved(0, [1]), moved(20, [1, 2]), moved(40, [1]), read(60, [1, 2])]],
    ['a list that goes back', [moved(0, [1]), moved(20, [1, 2]), read(21, [1, 2]), { ...read(32, [1]) }]],
    ['a list that never was', [moved(0, [1]), read(20, [2], 200)]],
  ])('rejects %s', (_what, accesses) => {
    expect(checkLists([{ account: 'a', accesses }])).toMatchObject([{ rule: LIST_RULES.rightTag, subject: 'list a' }]);
  });
});

/** By the moment of the request: the ids that it showed, nine milliseconds later. */
type Reads = Record<number, number[]>;
type Spans = Record<number, Span>;
const BEFORE: Span = { sentAt: 0, endedAt: 10 };
const UNKNOWN: Span = { sentAt: 20, endedAt: undefined };
const THREE: Spans = { 1: BEFORE, 2: BEFORE, 3: BEFORE };

describe('the checker of lists that all clients fill', () => {
  function rulesBroken(reads: Reads, creates: Spans, deletes: Spans): string[] {
    const entriesOf = <T>(record: Record<number, T>) =>
      Object.entries(record).map(([number, value]): [number, T] => [Number(number), value]);
    const list: SharedListHistory = {
      account: 'payee',
      creates: new Map(entriesOf(creates)),
      deletes: new Map(entriesOf(deletes)),
      reads: entriesOf(reads).map(([sentAt, ids]) => ({ sentAt, endedAt: sentAt + 9, ids })),
    };
    return [...new Set(checkSharedLists([list]).map(({ rule }) => rule))];
  }

  test.each<[string, Reads, creates: Spans, deletes: Spans]>([
    ['what was acknowledged before', { 100: [2, 3] }, THREE, { 1: BEFORE }],
    ['a create under way, seen or not', { 100: [], 120: [2] }, { 2: { sentAt: 95, endedAt: 105 } }, {}],
    ['a delete under way, seen or not', { 100: [1, 2, 3], 101: [2, 3] }, THREE, { 1: { sentAt: 105, endedAt: 125 } }],
    ['a delete of unknown outcome, seen or not', { 100: [1, 2, 3], 101: [1, 3] }, THREE, { 2: UNKNOWN }],
    ['a create that was never acknowledged', { 100: [2, 3, 7] }, THREE, { 1: BEFORE }],
  ])('accepts %s', (_what, reads, creates, deletes) => {
    expect(rulesBroken(reads, creates, deletes)).toEqual([]);
  });

  test.each<[string, string, Reads, creates: Spans, deletes: Spans]>([
    ['an acknowledged create that is missing', LIST_RULES.complete, { 100: [3] }, { 2: BEFORE, 3: BEFORE }, {}],
    ['an acknowledged delete that is shown', LIST_RULES.complete, { 100: [1, 2, 3] }, THREE, { 1: BEFORE }],
    ['an id that becomes visible after a higher one', LIST_RULES.inOrder, { 100: [5], 120: [4, 5] }, {}, {}],
    ['one that is gone and comes back', LIST_RULES.inOrder, { 100: [5], 120: [], 140: [5] }, {}, { 5: UNKNOWN }],
  ])('rejects %s', (_what, rule, reads, creates, deletes) => {
    expect(rulesBroken(reads, creates, deletes)).toEqual([rule]);
  });
});
