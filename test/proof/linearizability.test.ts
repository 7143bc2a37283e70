import { describe, expect, test } from 'vitest';
import { isLinearizable, type Model, type Operation } from '../../testkit/checkers/linearizability.js';

type Input = { readonly write: number } | 'read';

const REGISTER: Model<number, Input, number> = {
  initial: 0,
  step(state, input, output) {
    if (input === 'read') return output === undefined || output === state ? state : undefined;
    return input.write;
  },
  name: String,
};

type Line = readonly [from: number, to: number | undefined, input: Input, output?: number];

function accepts(...history: Line[]): boolean {
  const operations = history.map(([invokedAt, to, input, output = 0]): Operation<Input, number> => {
    return { invokedAt, input, completed: to === undefined ? undefined : { at: to, output } };
  });
  return isLinearizable(operations, REGISTER);
}

const write = (value: number): Input => ({ write: value });

describe('linearizability', () => {
  test('nothing, and one thing after another, have an order', () => {
    expect(accepts()).toBe(true);
    expect(accepts([0, 1, write(1)], [2, 3, 'read', 1], [4, 5, write(2)], [6, 7, 'read', 2])).toBe(true);
  });

  test('a read that is older than an answered write has none', () => {
    expect(accepts([0, 1, write(1)], [2, 3, 'read', 0])).toBe(false);
    expect(accepts([0, 1, write(1)], [2, 3, write(2)], [4, 5, 'read', 1])).toBe(false);
  });

  test('reads beside a write see either, and never the older one after the newer one', () => {
    expect(accepts([0, 10, write(1)], [1, 2, 'read', 0], [3, 4, 'read', 1])).toBe(true);
    expect(accepts([0, 10, write(1)], [1, 2, 'read', 1], [3, 4, 'read', 0])).toBe(false);
    expect(accepts([0, 10, write(1)], [1, 4, 'read', 1], [3, 6, 'read', 0])).toBe(true);
  });

  test('two writes at once may have happened in either order, but in one', () => {
    const both: Line[] = [
      [0, 10, write(1)],
      [0, 10, write(2)],
    ];
    expect(accepts(...both, [11, 12, 'read', 1], [13, 14, 'read', 1])).toBe(true);
    expect(accepts(...both, [11, 12, 'read', 2])).toBe(true);
    expect(accepts(...both, [11, 12, 'read', 1], [13, 14, 'read', 2])).toBe(false);
  });

  test('a write of unknown outcome may have happened at any time after it was asked for, or never', () => {
    expect(accepts([0, undefined, write(1)], [5, 6, 'read', 0], [100, 101, 'read', 1])).toBe(true);
    expect(accepts([0, undefined, write(1)], [5, 6, 'read', 0])).toBe(true);
    expect(accepts([7, undefined, write(1)], [5, 6, 'read', 1])).toBe(false);
    expect(accepts([0, undefined, write(1)], [5, 6, 'read', 1], [7, 8, 'read', 0])).toBe(false);
    // It cannot happen twice.
    expect(accepts([0, undefined, write(1)], [1, 2, 'read', 1], [3, 4, write(2)], [5, 6, 'read', 1])).toBe(false);
  });

  test('a value that nobody wrote was never there', () => {
    expect(accepts([0, 10, write(1)], [1, 2, 'read', 3])).toBe(false);
  });

  test('many reads beside many writes are put into an order in no time', () => {
    const history: Line[] = [];
    for (let value = 1; value <= 100; value += 1) {
      history.push([value * 10, value * 10 + 12, write(value)], [value * 10 + 5, value * 10 + 18, 'read', value]);
      if (value % 20 === 0) history.push([value * 10, undefined, write(-value)]);
    }
    expect(accepts(...history)).toBe(true);
    expect(accepts(...history, [2_000, 2_001, 'read', 3])).toBe(false);
  });
});
