import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { QUEUE_LIMIT_MS } from '#idempay/deployments/bounded-queue.js';
import { Batcher } from '#idempay/deployments/distributed/postgres/batcher.js';
import { StatementRefused } from '#idempay/deployments/distributed/postgres/postgres.js';
import type { StoreUnavailable } from '#idempay/faults.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const LANES = 2;
const MAX_BATCH = 500;
const MAX_WAITING = 10_000;

/** A statement that answers when the test says so, and everything that was asked of it. */
function openStatement() {
  const statements: { readonly items: readonly number[]; resolve(): void; reject(fault: unknown): void }[] = [];
  const run = (items: readonly number[]) =>
    new Promise<readonly number[]>((resolve, reject) => {
      statements.push({ items, resolve: () => resolve(items.map((item) => -item)), reject });
    });
  return { statements, run };
}

function refusal(sqlState: string): StatementRefused {
  return new StatementRefused(sqlState, new Error('refused'));
}

/** How each ended: its result, or the effect of its fault. */
function endings(results: readonly Promise<number>[]): Promise<(number | string)[]> {
  return Promise.all(results.map((result) => result.catch((fault: StoreUnavailable) => fault.effect)));
}

/** Occupies every lane with a statement that does not answer. */
async function occupiedBatcher(clock: HandClock) {
  const { statements, run } = openStatement();
  const batcher = new Batcher(run, clock, LANES);
  const first: Promise<number>[] = [];
  for (let lane = 0; lane < LANES; lane += 1) {
    first.push(batcher.add(lane));
    await turn();
  }
  return { batcher, statements, first };
}

describe('a batcher', () => {
  test('refuses as unchanged what waits in its queue beyond the limit, and never sends it', async () => {
    const clock = new HandClock();
    const { batcher, statements, first } = await occupiedBatcher(clock);
    const early = batcher.add(10);
    clock.advance(QUEUE_LIMIT_MS / 2);
    const late = batcher.add(11);
    clock.advance(QUEUE_LIMIT_MS / 2);
    await expect(early).rejects.toMatchObject({ name: 'StoreUnavailable', effect: 'unchanged' });

    for (const statement of statements) statement.resolve();
    await Promise.all(first);
    await turn();
    statements.at(-1)?.resolve();
    expect(await late).toBe(-11);
    expect(statements.flatMap(({ items }) => items)).not.toContain(10);
  });

  test('refuses as unchanged at once what finds its queue full', async () => {
    const { batcher, statements } = await occupiedBatcher(new HandClock());
    for (let item = 0; item < MAX_WAITING; item += 1) batcher.add(item).catch(() => {});
    await expect(batcher.add(-1)).rejects.toMatchObject({ name: 'StoreUnavailable', effect: 'unchanged' });
    expect(statements).toHaveLength(LANES);
  });

  test.each(['57014', '53300', '40001', '40P01', '55P03', '53100'])(
    'asks once, and fails all, when the statement of a batch is refused with %s',
    async (sqlState) => {
      const { statements, run } = openStatement();
      const batcher = new Batcher(run, new HandClock(), LANES);
      const added = Array.from({ length: MAX_BATCH }, (_, item) => batcher.add(item));
      await turn();
      statements[0]?.reject(refusal(sqlState));
      expect(new Set(await endings(added))).toEqual(new Set(['unchanged']));
      await turn();
      expect(statements).toHaveLength(1);
    },
  );

  test.each(['23505', '23514'])('fails only the item that violates a constraint (%s)', async (sqlState) => {
    const run = async (items: readonly number[]) => {
      if (items.includes(3)) throw refusal(sqlState);
      return items.map((item) => -item);
    };
    const batcher = new Batcher(run, new HandClock(), LANES);
    expect(await endings([1, 2, 3, 4].map((item) => batcher.add(item)))).toEqual([-1, -2, 'unchanged', -4]);
  });

  test.each([
    { when: 'at the first fault that is not the fault of one item', refused: 2, eachTakesMs: 0 },
    { when: 'when that takes too long', refused: 0, eachTakesMs: QUEUE_LIMIT_MS },
  ])('stops running a refused batch one by one $when', async ({ refused, eachTakesMs }) => {
    const clock = new HandClock();
    const asked: (readonly number[])[] = [];
    const run = async (items: readonly number[]) => {
      asked.push(items);
      if (items.length > 1) throw refusal('23505');
      if (items[0] === refused) throw refusal('57014');
      clock.advance(eachTakesMs);
      return items.map((item) => -item);
    };
    const batcher = new Batcher(run, clock, LANES);
    expect(await endings([1, 2, 3, 4].map((item) => batcher.add(item)))).toEqual([
      -1,
      'unchanged',
      'unchanged',
      'unchanged',
    ]);
    expect(asked).toEqual([[1, 2, 3, 4], [1], ...(refused === 2 ? [[2]] : [])]);
  });
});
