import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FairLine } from '#idempay/limits/fair-line.js';
import { AllSnapshotsInUse } from '#idempay/platform/faults.js';
import { ListReads } from '#idempay/stores/embedded/list-reads.js';
import { type Turn, Turns } from '#idempay/stores/shared/turns.js';

describe('turns for a snapshot', () => {
  const LONGEST_WAIT_MS = 10_000;
  const MOST_WAITING = 256;

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Turns that are all held, by these clients. */
  async function heldBy(...clients: string[]) {
    const turns = new Turns(clients.length);
    const held = await Promise.all(clients.map((client) => turns.take(client)));
    const served: string[] = [];
    const ask = (client: string, name = client) =>
      turns.take(client).then((turn) => {
        served.push(name);
        return turn;
      });
    return { turns, held: held as [Turn, ...Turn[]], served, ask };
  }

  /** Each turn is passed on at once, until nobody waits. */
  async function passOn(first: Turn, asked: readonly Promise<Turn>[]): Promise<void> {
    for (const turn of asked) turn.then(({ pass }) => pass());
    first.pass();
    await Promise.all(asked);
  }

  test('are refused after ten seconds, and at once when the line is full', async () => {
    const { turns, held } = await heldBy('a', 'a');
    const waiting = Array.from({ length: MOST_WAITING }, () => turns.take('a').catch((fault: unknown) => fault));
    await expect(turns.take('b')).rejects.toBeInstanceOf(AllSnapshotsInUse);
    await vi.advanceTimersByTimeAsync(LONGEST_WAIT_MS - 1);
    expect(held[0].isWanted()).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    for (const fault of await Promise.all(waiting)) expect(fault).toBeInstanceOf(AllSnapshotsInUse);
    expect(held[0].isWanted()).toBe(false);
  });

  test('go alternately to the newest and the oldest request of one client', async () => {
    const { held, served, ask } = await heldBy('a');
    const asked = ['first', 'second', 'third', 'fourth'].map((name) => ask('a', name));
    await passOn(held[0], asked);
    expect(served).toEqual(['fourth', 'first', 'third', 'second']);
  });

  /**
   * Bug: 200 lists of one client denied lists to everybody else. Cause: whoever asked last was served next. Fix: each client that
   * waits gets a turn in each round, and one that joins begins at the least share of those that wait.
   */
  test('go to each client that waits in a round, however many requests one of them has', async () => {
    const { held, served, ask } = await heldBy('a');
    const asked = [...Array(50).fill('a'), 'b', ...Array(50).fill('a'), 'c', 'c'].map((client) => ask(client));
    await passOn(held[0], asked);
    expect(served.slice(0, 6).sort()).toEqual(['a', 'a', 'a', 'b', 'c', 'c'].sort());
    expect(new Set(served.slice(0, 3))).toEqual(new Set(['a', 'b', 'c']));
  });

  test('are half of one client while others wait, which is owed to them after two seconds', async () => {
    const { held, served, ask } = await heldBy('a', 'a', 'a', 'a');
    const asked = ['a', 'a', 'b', 'b', 'b'].map((client) => ask(client));
    expect(held.map((turn) => turn.isOwed())).toEqual([false, false, false, false]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(held.map((turn) => turn.isOwed())).toEqual([true, true, true, true]);
    held[0].pass();
    held[1]?.pass();
    await vi.advanceTimersByTimeAsync(0);
    expect(served).toEqual(['b', 'b']);
    expect(held[2]?.isOwed()).toBe(false);
    // Where each has a half, they take turns.
    held[2]?.pass();
    await vi.advanceTimersByTimeAsync(0);
    expect(served).toEqual(['b', 'b', 'a']);
    for (const turn of asked) turn.then(({ pass }) => pass());
    held[3]?.pass();
    await Promise.all(asked);
  });

  /**
   * Bug: a list of 300 rows waited for eight seconds, until forty clients that stalled had been read ahead for and cut off. Cause:
   * their snapshots were all there are. Fix: a quarter is for lists that begin, and most of these end with their first page.
   */
  test('are three quarters of long lists at most', async () => {
    const turns = new Turns(4);
    const long = await Promise.all([turns.take('a', 'at the end'), turns.take('a', 'at the end'), turns.take('a')]);
    expect(long[2]?.lengthen()).toBe(undefined);
    const short = await turns.take('a');
    const place = short.lengthen();
    expect(place).toBeDefined();
    const later = turns.take('a', 'at the end');
    const waiting = turns.take('a', place);
    short.pass();
    (await turns.take('a')).pass();
    // Asked for first, so it is the older one of the two.
    long[0]?.pass();
    (await later).pass();
    (await waiting).pass();
    expect(long.map((turn) => turn.isWanted())).toEqual([false, false, false]);
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
        await reads.page(undefined, LIMIT, () => {
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
    const pages = [() => Array(LIMIT), fail, fail, () => [1]].map((read) => reads.page(undefined, LIMIT, read));
    const outcomes = await Promise.allSettled(pages);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  });

  test('a client with many lists does not keep the list of another one waiting', async () => {
    const reads = new ListReads();
    const read: string[] = [];
    const page = (client: string) => reads.page(client, LIMIT, () => Array(LIMIT).fill(read.push(client)));
    await Promise.all([...Array(40).fill('a'), 'b', 'b'].map(page));
    expect(read.slice(0, 5).filter((client) => client === 'b')).toHaveLength(2);
  });
});

test('a client that joins a line begins at the least share of those that wait', () => {
  const line = new FairLine<string>();
  const addTen = (client: string) => Array.from({ length: 10 }, () => line.add(client, client));
  addTen('a');
  for (let turn = 0; turn < 6; turn += 1) line.next();
  addTen('b');
  const served = Array.from({ length: 6 }, () => line.next());
  expect(served.filter((client) => client === 'a')).toHaveLength(3);
});
