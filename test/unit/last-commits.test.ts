import { beforeEach, describe, expect, test } from 'vitest';
import { LastCommits, readCommits } from '#idempay/stores/shared/last-commits.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const MOST_SEEN = 64;
const ROWS = 1_000;
const SETTLED_AT_MS = 1_000_000;

let commits: LastCommits;
let texts: string[];

beforeEach(() => {
  texts = [];
  commits = new LastCommits(new HandClock());
  const write = async ({ text }: { text: string }) => void texts.push(text);
  commits.keepIn({ read: async () => new Map(), write });
  commits.moveTo({ generation: 1, incarnation: 'one' }, new Set());
  texts.length = 0;
});

const keyOf = (row: number) => `f0000000-0000-8000-8000-${String(row).padStart(12, '0')}`;
const see = (row: number) => commits.saw({ key: keyOf(row), epoch: 1 }, SETTLED_AT_MS + row);
const known = () => readCommits(texts.at(-1) ?? '').commits.map((commit) => ('key' in commit ? commit.key : commit));

/**
 * Bug: the commits of a process that only answered repeats grew with each answer, to 93 bytes a row, and all of them were sent to Redis
 * each time. Cause: only a commit of its own made it forget. Fix: of rows that were read it keeps those that were settled last.
 */
describe('settled rows that were read', () => {
  test.each([
    ['oldest first', (row: number) => row],
    ['newest first', (row: number) => ROWS - 1 - row],
    ['in any order', (row: number) => (row * 7) % ROWS],
  ])('are remembered up to a number, those that were settled last (%s)', (_order, nth) => {
    for (let row = 0; row < ROWS; row += 1) see(nth(row));
    const newest = Array.from({ length: MOST_SEEN }, (_, n) => keyOf(ROWS - MOST_SEEN + n));
    expect(known().sort()).toEqual(newest);
  });

  test('are not remembered again, and nothing is written for them, where they are known or older', () => {
    for (let row = 0; row < MOST_SEEN; row += 1) see(row + 1);
    texts.length = 0;
    for (let row = 0; row <= MOST_SEEN; row += 1) see(row);
    expect(texts).toEqual([]);
  });

  test('have the time of their settlement, and leave the commits of the process', () => {
    commits.add({ key: keyOf(ROWS), epoch: 2, settled: false });
    for (let row = 0; row < ROWS; row += 1) see(row);
    const [own, ...seen] = readCommits(texts.at(-1) ?? '').commits;
    expect(own).toMatchObject({ key: keyOf(ROWS), epoch: 2, settled: false });
    expect(seen.at(-1)).toEqual({ key: keyOf(ROWS - 1), epoch: 1, settled: true, atMs: SETTLED_AT_MS + ROWS - 1 });
  });

  test('are forgotten when a commit whose statement began later is known', () => {
    see(1);
    const begunAt = commits.begin();
    see(2);
    commits.add({ id: 7, version: 1 }, begunAt);
    expect(known()).toEqual([keyOf(2), { id: 7, version: 1 }]);
  });
});
