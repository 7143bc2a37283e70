import { expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { QUEUE_LIMIT_MS } from '#idempay/stores/shared/bounded-queue.js';
import { OneAtATime } from '#idempay/stores/shared/one-at-a-time.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** Lets what is resolved already go on. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

function setUp() {
  const clock = new HandClock();
  const lane = new OneAtATime('The store', clock);
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const run = (number: number) =>
    lane.run(() => {
      begun.push(number);
      return new Promise<number>((resolve) => ends.push(() => resolve(number)));
    });
  return { clock, lane, begun, ends, run };
}

test('one write is under way at a time, and the next one begins after a rest as long as it took', async () => {
  const { clock, begun, ends, run } = setUp();
  const [first, second] = [run(1), run(2)];
  await settle();
  expect(begun).toEqual([1]);
  clock.advance(40);
  ends[0]?.();
  expect(await first).toBe(1);
  clock.advance(39);
  await settle();
  expect(begun).toEqual([1]);
  clock.advance(1);
  await settle();
  expect(begun).toEqual([1, 2]);
  ends[1]?.();
  expect(await second).toBe(2);
});

test('a write that comes in the rest of the one before waits for its end, and one that comes later begins at once', async () => {
  const { clock, begun, ends, run } = setUp();
  run(1);
  clock.advance(40);
  ends[0]?.();
  await settle();
  run(2);
  await settle();
  expect(begun).toEqual([1]);
  clock.advance(40);
  await settle();
  expect(begun).toEqual([1, 2]);
  ends[1]?.();
  await settle();
  clock.advance(1);
  run(3);
  await settle();
  expect(begun).toEqual([1, 2, 3]);
});

test('a write that fails lets the next one begin', async () => {
  const { clock, lane, begun, run } = setUp();
  const fault = new Error('refused');
  await expect(lane.run(() => Promise.reject(fault))).rejects.toBe(fault);
  clock.advance(0);
  run(1);
  await settle();
  expect(begun).toEqual([1]);
});

test('a write that does not begin in time is refused with nothing changed, and keeps no other waiting', async () => {
  const { clock, begun, ends, run } = setUp();
  run(1);
  const late = run(2).catch((error: unknown) => error);
  clock.advance(QUEUE_LIMIT_MS);
  expect(await late).toBeInstanceOf(StoreUnavailable);
  expect(await late).toMatchObject({ effect: 'unchanged' });
  const third = run(3);
  ends[0]?.();
  await settle();
  clock.advance(200);
  await settle();
  expect(begun).toEqual([1, 3]);
  ends[1]?.();
  expect(await third).toBe(3);
});
