import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FairLine } from '#idempay/limits/fair-line.js';
import { AllSnapshotsInUse } from '#idempay/platform/faults.js';
import { ListReads } from '#idempay/stores/embedded/list-reads.js';
import { type Permit, Permits } from '#idempay/stores/shared/permits.js';

describe('permits for a snapshot', () => {
  const LONGEST_WAIT_MS = 10_000;
  const MOST_WAITING = 256;

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Permits that are all held, by these clients. */
  async function heldBy(...clients: string[]) {
    const permits = new Permits(clients.length);
    const held = await Promise.all(clients.map((client) => permits.take(client)));
    const served: string[] = [];
    const ask = (client: string, name = client) =>
      permits.take(client).then((permit) => {
        served.push(name);
        return permit;
      });
    return { permits, held: held as [Permit, ...Permit[]], served, ask };
  }

  /** Each permit is released at once, until nobody waits. */
  async function passOn(first: Permit, asked: readonly Promise<Permit>[]): Promise<void> {
    for (const permit of asked) permit.then(({ release }) => release());
    first.release();
    await Promise.all(asked);
  }

  test('are refused after ten seconds, and at once when the line is full', async () => {
    const { permits, held } = await heldBy('a', 'a');
    const waiting = Array.from({ length: MOST_WAITING }, () => permits.take('a').catch((fault: unknown) => fault));
    await expect(permits.take('b')).rejects.toBeInstanceOf(AllSnapshotsInUse);
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
   * waits gets a permit in each round, and one that joins begins at the least share of those that wait.
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
    expect(held.map((permit) => permit.isOwed())).toEqual([false, false, false, false]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(held.map((permit) => permit.isOwed())).toEqual([true, true, true, true]);
    held[0].release();
    held[1]?.release();
    await vi.advanceTimersByTimeAsync(0);
    expect(served).toEqual(['b', 'b']);
    expect(held[2]?.isOwed()).toBe(false);
    // If each has a half, they are served alternately.
    held[2]?.release();
    await vi.advanceTimersByTimeAsync(0);
    expect(served).toEqual(['b', 'b', 'a']);
    for (const permit of asked) permit.then(({ release }) => release());
    held[3]?.release();
    await Promise.all(asked);
  });

  /**
   * Bug: a list of 300 rows waited for eight seconds, until forty clients that stalled had been read ahead for and cut off. Cause:
   * their snapshots were all there are. Fix: a quarter is for lists that begin, and most of these end with their first page.
   */
  test('are three quarters of long lists at most', async () => {
    const permits = new Permits(4);
    const long = await Promise.all([
      permits.take('a', 'at the end'),
      permits.take('a', 'at the end'),
      permits.take('a'),
    ]);
    expect(long[2]?.lengthen()).toBe(undefined);
    const short = await permits.take('a');
    const place = short.lengthen();
    expect(place).toBeDefined();
    const later = permits.take('a', 'at the end');
    const waiting = permits.take('a', place);
    short.release();
    (await permits.take('a')).release();
    // Asked for first, so it is the older one of the two.
    long[0]?.release();
    (await later).release();
    (await waiting).release();
    expect(long.map((permit) => permit.isWanted())).toEqual([false, false, false]);
  });
});

/**
 * Bug: payments waited behind the lists that were read at the same time. Cause: every list read its page in the same
 * iteration of the event loop. Fix: one page in an iteration, of whatever list.
 */
describe('reading lists on the main thread', () => {
  const LIMIT = 10;

  /** The iteration of the event loop in which each page of this number of lists was read. */
  async function iterationsOf(lists: number, pages: number, rows: number): Promise<number[]> {
    const reads = new ListReads();
    const iterations: number[] = [];
    let iteration = 0;
    // Begun first, so that it is the first of each iteration.
    let next = setImmediate(function count() {
      iteration += 1;
      next = setImmediate(count);
    });
    const readList = async () => {
      for (let page = 0; page < pages; page += 1) {
        await reads.page(undefined, LIMIT, () => {
          iterations.push(iteration);
          return Array(rows);
        });
      }
    };
    await Promise.all(Array.from({ length: lists }, readList));
    clearImmediate(next);
    return iterations;
  }

  test('ten long lists read one page in an iteration, and all of them end', async () => {
    const iterations = await iterationsOf(10, 5, LIMIT);
    expect(iterations).toHaveLength(50);
    expect(new Set(iterations).size).toBeGreaterThanOrEqual(49);
  });

  test('short lists share an iteration, up to a page of rows', async () => {
    const iterations = await iterationsOf(20, 1, 1);
    expect(iterations).toHaveLength(20);
    expect(new Set(iterations).size).toBeLessThanOrEqual(4);
    for (const iteration of iterations)
      expect(iterations.filter((other) => other === iteration).length).toBeLessThanOrEqual(LIMIT + 1);
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
