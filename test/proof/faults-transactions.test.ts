import { describe, expect, test } from 'vitest';
import { checkLists, checkSharedLists, LIST_RULES, listTag } from '../../testkit/checkers/lists.js';
import { checkTransactions, TRANSACTION_RULES } from '../../testkit/checkers/transactions.js';
import {
  type Access,
  DONE,
  FINAL,
  GONE,
  type Input,
  type ListAccess,
  NOT_AS_EXPECTED,
  type SharedListHistory,
  type Span,
} from '../../testkit/history/transactions.js';

/** Accesses one after the other, ten milliseconds each; an output of undefined was never answered. */
function accesses(...all: [Input, string | undefined, number?][]): Access[] {
  return all.map(([input, output, invokedAt], index) => {
    const from = invokedAt ?? index * 20;
    return { invokedAt: from, completed: output === undefined ? undefined : { at: from + 10, output }, input };
  });
}
const READ: Input = { what: 'read' };
const DELETE: Input = { what: 'delete' };
const to = (status: string): Input => ({ what: 'change', status });

describe('the checker of transactions', () => {
  test.each<[string, Access[]]>([
    ['reads of the last change', accesses([READ, 'PENDING'], [to('FLAGGED'), DONE], [READ, 'FLAGGED'])],
    ['a change that may have happened', accesses([to('FLAGGED'), undefined], [READ, 'PENDING'], [READ, 'FLAGGED'])],
    ['a change that never happened', accesses([to('FLAGGED'), undefined], [READ, 'PENDING'], [READ, 'PENDING'])],
    ['a delete', accesses([DELETE, DONE], [READ, GONE], [to('FLAGGED'), GONE], [DELETE, GONE])],
    ['a final status', accesses([to('FAILED'), DONE], [to('FLAGGED'), FINAL], [to('FAILED'), DONE], [READ, 'FAILED'])],
    [
      'a change only for another status',
      accesses([{ what: 'change', status: 'FLAGGED', onlyFrom: 'ON_HOLD' }, NOT_AS_EXPECTED]),
    ],
    [
      'two changes at once, in either order',
      accesses([to('FLAGGED'), DONE, 0], [to('PENDING'), DONE, 5], [READ, 'PENDING'], [READ, 'PENDING']),
    ],
  ])('accepts %s', (_what, history) => {
    expect(checkTransactions([{ id: 1, status: 'PENDING', accesses: history }])).toEqual([]);
  });

  test.each<[string, Access[]]>([
    ['a read older than an acknowledged change', accesses([to('FLAGGED'), DONE], [READ, 'PENDING'])],
    ['a read of a deleted one', accesses([DELETE, DONE], [READ, 'PENDING'])],
    ['one that was never deleted and is gone', accesses([READ, GONE])],
    ['a status that nobody set', accesses([READ, 'BLOCKED'])],
    [
      'a read that goes back behind another read',
      accesses([to('FLAGGED'), undefined], [READ, 'FLAGGED'], [READ, 'PENDING']),
    ],
    ['a way out of a final status', accesses([to('FAILED'), DONE], [to('FLAGGED'), DONE])],
    ['a refusal without reason', accesses([to('FLAGGED'), FINAL])],
    ['an acknowledged change that is lost', accesses([to('FLAGGED'), DONE], [to('ON_HOLD'), DONE], [READ, 'FLAGGED'])],
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

/** Two creates and a delete, all acknowledged before the reads begin at 100. */
function sharedList(more: {
  creates?: [number, Span][];
  deletes?: [number, Span][];
  reads: [sentAt: number, endedAt: number, ids: number[]][];
}): SharedListHistory {
  const done = { sentAt: 0, endedAt: 10 };
  return {
    account: 'payee',
    creates: new Map(
      more.creates ?? [
        [1, done],
        [2, done],
        [3, done],
      ],
    ),
    deletes: new Map(more.deletes ?? [[1, { sentAt: 20, endedAt: 30 }]]),
    reads: more.reads.map(([sentAt, endedAt, ids]) => ({ sentAt, endedAt, ids })),
  };
}

function rulesBroken(list: SharedListHistory): string[] {
  return [...new Set(checkSharedLists([list]).map(({ rule }) => rule))];
}

describe('the checker of lists that all clients fill', () => {
  test.each<[string, SharedListHistory]>([
    ['what was acknowledged before', sharedList({ reads: [[100, 110, [2, 3]]] })],
    [
      'a create under way, seen or not',
      sharedList({
        creates: [[2, { sentAt: 95, endedAt: 105 }]],
        deletes: [],
        reads: [
          [100, 110, []],
          [120, 130, [2]],
        ],
      }),
    ],
    [
      'a delete under way, or of unknown outcome, seen or not',
      sharedList({
        deletes: [
          [1, { sentAt: 105, endedAt: 125 }],
          [2, { sentAt: 20, endedAt: undefined }],
        ],
        reads: [
          [100, 110, [1, 2, 3]],
          [101, 109, [2, 3]],
        ],
      }),
    ],
    ['a create that was never acknowledged', sharedList({ reads: [[100, 110, [2, 3, 7]]] })],
  ])('accepts %s', (_what, list) => {
    expect(checkSharedLists([list])).toEqual([]);
  });

  test.each<[string, string, SharedListHistory]>([
    ['an acknowledged create that is missing', LIST_RULES.complete, sharedList({ reads: [[100, 110, [3]]] })],
    ['an acknowledged delete that is shown', LIST_RULES.complete, sharedList({ reads: [[100, 110, [1, 2, 3]]] })],
    [
      'an id that becomes visible after a higher one',
      LIST_RULES.inOrder,
      sharedList({
        creates: [],
        deletes: [],
        reads: [
          [100, 110, [5]],
          [120, 130, [4, 5]],
        ],
      }),
    ],
    [
      'one that is gone and comes back',
      LIST_RULES.inOrder,
      sharedList({
        creates: [],
        deletes: [[5, { sentAt: 0, endedAt: undefined }]],
        reads: [
          [100, 110, [5]],
          [120, 130, []],
          [140, 150, [5]],
        ],
      }),
    ],
  ])('rejects %s', (_what, rule, list) => {
    expect(rulesBroken(list)).toEqual([rule]);
  });
});
