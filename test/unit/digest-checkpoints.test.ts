import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { sparse } from '#idempay/transactions/digest-checkpoints.js';

const DISTANCE = 10;
const digest = createHash('md5');

/** One checkpoint after each ten ids. */
function checkpoints(length: number) {
  return Array.from({ length }, (_, index) => ({ lastId: index, count: (index + 1) * DISTANCE, digest }));
}

test.each([
  ['none', 0, 0, DISTANCE],
  ['all of 256, which is as many as are kept', 256, 256, DISTANCE],
  ['each second of 257', 257, 129, 2 * DISTANCE],
  ['each fourth of 1,000', 1_000, 250, 4 * DISTANCE],
])('of many checkpoints of a list are kept: %s', (_what, length, kept, distance) => {
  const counts = sparse(checkpoints(length), DISTANCE).map(({ count }) => count);
  expect(counts).toHaveLength(kept);
  expect(counts.at(-1)).toBe(length === 0 ? undefined : length * DISTANCE);
  expect(counts.slice(0, -1)).toEqual(
    Array.from({ length: Math.max(0, kept - 1) }, (_, index) => (index + 1) * distance),
  );
});

test('a checkpoint that is too close to the one before it is left out', () => {
  const close = [10, 15, 20, 29, 30, 31].map((count) => ({ lastId: count, count, digest }));
  expect(sparse(close, DISTANCE).map(({ count }) => count)).toEqual([10, 20, 30, 31]);
});
