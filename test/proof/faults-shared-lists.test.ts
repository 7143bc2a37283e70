import { describe, expect, test } from 'vitest';
import {
  judgeSharedLists,
  SHARED_LIST_RULES,
  type SharedListHistory,
  type Span,
} from '../../testkit/checkers/shared-list-rules.js';

/** Two creates and a delete, all acknowledged before the reads begin at 100. */
function history(more: {
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
  return [...new Set(judgeSharedLists([list]).map(({ rule }) => rule))];
}

describe('the judge of lists that all clients fill', () => {
  test.each<[string, SharedListHistory]>([
    ['what was acknowledged before', history({ reads: [[100, 110, [2, 3]]] })],
    [
      'a create under way, seen or not',
      history({
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
      history({
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
    ['a create that was never acknowledged', history({ reads: [[100, 110, [2, 3, 7]]] })],
  ])('accepts %s', (_what, list) => {
    expect(judgeSharedLists([list])).toEqual([]);
  });

  test.each<[string, string, SharedListHistory]>([
    ['an acknowledged create that is missing', SHARED_LIST_RULES.complete, history({ reads: [[100, 110, [3]]] })],
    ['an acknowledged delete that is shown', SHARED_LIST_RULES.complete, history({ reads: [[100, 110, [1, 2, 3]]] })],
    [
      'an id that becomes visible after a higher one',
      SHARED_LIST_RULES.inOrder,
      history({
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
      SHARED_LIST_RULES.inOrder,
      history({
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
