import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AllSnapshotsInUse } from '#idempay/platform/faults.js';
import { ListReads } from '#idempay/stores/embedded/list-reads.js';
import { Turns } from '#idempay/stores/shared/turns.js';

describe('turns for a snapshot', () => {
  const LONGEST_WAIT_MS = 10_000;
  const MOST_WAITING = 256;
  let turns: Turns;

  beforeEach(async () => {
    vi.useFakeTimers();
    turns = new Turns(2);
    await turns.take();
    await turns.take();
  });
  afterEach(() => vi.useRealTimers());

  test('are refused after ten seconds, and at once when the line is full', async () => {
    const waiting = Array.from({ length: MOST_WAITING }, () => turns.take().catch((fault: unknown) => fault));
    await expect(turns.take()).rejects.toBeInstanceOf(AllSnapshotsInUse);
    await vi.advanceTimersByTimeAsync(LONGEST_WAIT_MS - 1);
    expect(turns.areWanted()).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    for (const fault of await Promise.all(waiting)) expect(fault).toBeInstanceOf(AllSnapshotsInUse);
    expect(turns.areWanted()).toBe(false);
  });

  test('are wanted while requests wait, and go to the last one in line, then to the one before it', async () => {
    expect(turns.areWanted()).toBe(false);
    const order: number[] = [];
    const waiting = [1, 2, 3].map((number) => turns.take().then(() => order.push(number)));
    expect(turns.areWanted()).toBe(true);
    for (const _ of waiting) turns.pass();
    await Promise.all(waiting);
    expect(order).toEqual([3, 2, 1]);
    expect(turns.areWanted()).toBe(false);
  });
});

/**
 * Bug: payments waited behind the lists that were read at the same time. Cause: every list read its page in the same turn
 * of the event loop. Fix: one page in a turn, of whatever list.
 */
describe('reading lists on the main thread', () => {
  const LIMIT = 10;

  /** The turn of the event loop in which each page of so many lists was read. */
  async function turnsOf(lists: number, pages: number, rows: number): Promise<number[]> {
    const reads = new ListReads();
    const turns: number[] = [];
    let turn = 0;
    // Begun first, so that it is the first of each turn.
    let next = setImmediate(function count() {
      turn += 1;
      next = setImmediate(count);
    });
    const readList = async () => {
      for (let page = 0; page < pages; page += 1) {
        await reads.page(LIMIT, () => {
          turns.push(turn);
          return Array(rows);
        });
      }
    };
    await Promise.all(Array.from({ length: lists }, readList));
    clearImmediate(next);
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
    expect(new Set(turns).size).toBeLessThanOrEqual(4);
    for (const turn of turns) expect(turns.filter((other) => other === turn).length).toBeLessThanOrEqual(LIMIT + 1);
  });

  test('a read that fails does not hold up the others', async () => {
    const reads = new ListReads();
    const fail = () => {
      throw new Error('no rows');
    };
    const pages = [() => Array(LIMIT), fail, fail, () => [1]].map((read) => reads.page(LIMIT, read));
    const outcomes = await Promise.allSettled(pages);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  });
});
