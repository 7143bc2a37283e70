import { describe, expect, test } from 'vitest';
import { ListReads } from '#idempay/deployments/embedded/list-reads.js';

const LIMIT = 10;

/**
 * Bug: payments waited behind the lists that were read at the same time. Cause: every list read its page in the same turn
 * of the event loop. Fix: one page in a turn, whoever's it is.
 */
describe('reading lists on the main thread', () => {
  /** Reads a list page by page, and notes the turn of each. */
  async function readList(reads: ListReads, pages: number, rows: number, turns: number[], turn: () => number) {
    for (let page = 0; page < pages; page += 1) {
      await reads.page(LIMIT, () => {
        turns.push(turn());
        return Array.from({ length: rows }, () => page);
      });
    }
  }

  async function turnsOf(lists: number, pages: number, rows: number): Promise<number[]> {
    const reads = new ListReads();
    const turns: number[] = [];
    let turn = 0;
    let done = false;
    // Begun first, so that it is the first of each turn.
    const count = () => {
      turn += 1;
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(Array.from({ length: lists }, () => readList(reads, pages, rows, turns, () => turn)));
    done = true;
    return turns;
  }

  test('ten long lists read one page in a turn, and all of them end', async () => {
    const turns = await turnsOf(10, 5, LIMIT);
    expect(turns).toHaveLength(50);
    expect(new Set(turns).size).toBeGreaterThanOrEqual(49);
  });

  test('short lists share a turn, up to a page of rows', async () => {
    const turns = await turnsOf(20, 1, 1);
    expect(turns).toHaveLength(20);
    const inTurn = (turn: number) => turns.filter((other) => other === turn).length;
    expect(Math.max(...turns.map(inTurn))).toBeLessThanOrEqual(LIMIT + 1);
    expect(new Set(turns).size).toBeLessThanOrEqual(4);
  });

  test('a read that fails does not hold up the others', async () => {
    const reads = new ListReads();
    const fail = () => {
      throw new Error('no rows');
    };
    const outcomes = await Promise.allSettled([
      reads.page(LIMIT, () => Array(LIMIT).fill(0)),
      reads.page(LIMIT, fail),
      reads.page(LIMIT, fail),
      reads.page(LIMIT, () => [1]),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  });
});
