import { describe, expect, test } from 'vitest';
import { StoreClock } from '#idempay/stores/embedded/store-clock.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const NOW_MS = 1_000_000;
const HOUR_MS = 3_600_000;

describe("the store's clock", () => {
  test.each([
    ['late', NOW_MS + HOUR_MS],
    ['right', NOW_MS - HOUR_MS],
  ])('goes on from its start with a wall clock that is %s', (_, lastWrittenMs) => {
    const clock = new HandClock(NOW_MS);
    const store = new StoreClock(clock, lastWrittenMs);
    const beginsMs = Math.max(NOW_MS, lastWrittenMs);
    for (const passedMs of [0, 1_000, 2_000]) {
      expect(store.now()).toBe(beginsMs + passedMs);
      clock.advance(1_000);
    }
    expect(store.aheadOfWallClock()).toBe(beginsMs - NOW_MS);
  });

  test('is never before a time that was written, or that the other thread has seen', () => {
    const clock = new HandClock(NOW_MS);
    const store = new StoreClock(clock, NOW_MS);
    store.wrote(NOW_MS + 10);
    expect([store.now(), store.writtenMs]).toEqual([NOW_MS + 10, NOW_MS + 10]);
    store.wrote(NOW_MS + 5);
    expect([store.now(), store.writtenMs]).toEqual([NOW_MS + 10, NOW_MS + 10]);
    store.runTo(NOW_MS + 20);
    expect([store.now(), store.writtenMs]).toEqual([NOW_MS + 20, NOW_MS + 10]);
    store.runTo(NOW_MS);
    expect(store.now()).toBe(NOW_MS + 20);
    clock.advance(30);
    expect(store.now()).toBe(NOW_MS + 30);
  });
});
