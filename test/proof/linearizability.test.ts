import { expect, test } from 'vitest';
import { isLinearizable, type Model } from '../../testkit/checkers/linearizability.js';

type Input = { readonly write: number } | 'read';

const REGISTER: Model<number, Input, number> = {
  initial: 0,
  step(state, input, output) {
    if (input === 'read') return output === undefined || output === state ? state : undefined;
    return input.write;
  },
  name: String,
};

/** From when to when a value was written or read; a write of unknown outcome has no end. */
type Line = readonly [from: number, to: number | undefined, what: 'write' | 'read', value: number];

function hasAnOrder(history: readonly Line[]): boolean {
  const operations = history.map(([invokedAt, to, what, value]) => {
    const completed = to === undefined ? undefined : { at: to, output: value };
    return { invokedAt, completed, input: what === 'read' ? what : { write: value } };
  });
  return isLinearizable(operations, REGISTER);
}

const ONE: Line = [0, 10, 'write', 1];
const TWO: Line = [0, 10, 'write', 2];
const UNKNOWN: Line = [0, undefined, 'write', 1];

test.each<[what: string, expected: boolean, ...history: Line[]]>([
  ['nothing', true],
  ['one after another', true, [0, 1, 'write', 1], [2, 3, 'read', 1], [4, 5, 'write', 2], [6, 7, 'read', 2]],
  ['a read older than an answered write', false, [0, 1, 'write', 1], [2, 3, 'read', 0]],
  ['a read of the write before the last', false, [0, 1, 'write', 1], [2, 3, 'write', 2], [4, 5, 'read', 1]],
  ['the old value, then the new one, alongside a write', true, ONE, [1, 2, 'read', 0], [3, 4, 'read', 1]],
  ['the new value, then the old one, alongside a write', false, ONE, [1, 2, 'read', 1], [3, 4, 'read', 0]],
  ['both values at once alongside a write', true, ONE, [1, 4, 'read', 1], [3, 6, 'read', 0]],
  ['a value that nobody wrote', false, ONE, [1, 2, 'read', 3]],
  ['two writes at once, the first one last', true, ONE, TWO, [11, 12, 'read', 1], [13, 14, 'read', 1]],
  ['two writes at once, the second one last', true, ONE, TWO, [11, 12, 'read', 2]],
  ['two writes at once, each one last', false, ONE, TWO, [11, 12, 'read', 1], [13, 14, 'read', 2]],
  ['an unknown write that happens late', true, UNKNOWN, [5, 6, 'read', 0], [100, 101, 'read', 1]],
  ['an unknown write that never happens', true, UNKNOWN, [5, 6, 'read', 0]],
  ['an unknown write that is read before it', false, [7, undefined, 'write', 1], [5, 6, 'read', 1]],
  ['an unknown write that is undone', false, UNKNOWN, [5, 6, 'read', 1], [7, 8, 'read', 0]],
  ['an unknown write twice', false, UNKNOWN, [1, 2, 'read', 1], [3, 4, 'write', 2], [5, 6, 'read', 1]],
])('the checker of orders: %s: %s', (_what, expected, ...history) => {
  expect(hasAnOrder(history)).toBe(expected);
});

test('many reads alongside many writes are put into an order in no time', () => {
  const history: Line[] = [];
  for (let value = 1; value <= 100; value += 1) {
    history.push([value * 10, value * 10 + 12, 'write', value], [value * 10 + 5, value * 10 + 18, 'read', value]);
    if (value % 20 === 0) history.push([value * 10, undefined, 'write', -value]);
  }
  expect(hasAnOrder(history)).toBe(true);
  expect(hasAnOrder([...history, [2_000, 2_001, 'read', 3]])).toBe(false);
});
