import { afterEach, expect, test, vi } from 'vitest';
import { DatabaseClock } from '#idempay/deployments/distributed/postgres/database-clock.js';
import type { Postgres } from '#idempay/deployments/distributed/postgres/postgres.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** How far the database's clock is ahead of our monotonic one. */
const AHEAD_MS = 1_700_000_000_000;
const SLOW_REPLY_MS = 250;

afterEach(() => vi.useRealTimers());

/** A database whose statements take their time on the way there and back, by the clock that the test owns. */
function openSlowDatabase(clock: HandClock) {
  const way = { thereMs: 0, backMs: 0, aheadMs: AHEAD_MS };
  const read = async () => {
    clock.advance(way.thereMs);
    const now = clock.monotonic() + way.aheadMs;
    clock.advance(way.backMs);
    return [{ now }];
  };
  return { way, databaseClock: new DatabaseClock({ read } as unknown as Postgres, clock) };
}

test.each([
  { thereMs: 100, backMs: 0 },
  { thereMs: 0, backMs: 100 },
  { thereMs: 70, backMs: 30 },
  // The first answer is taken however slow it is.
  { thereMs: 3_000, backMs: 2_000 },
])(
  'a moment of ours is never late on the database clock, and early by the way of one reply ($thereMs, $backMs)',
  async (given) => {
    const clock = new HandClock();
    const { way, databaseClock } = openSlowDatabase(clock);
    Object.assign(way, given);
    await databaseClock.synchronize();
    const trueTime = clock.monotonic() + AHEAD_MS;
    expect(databaseClock.at(clock.monotonic())).toBeLessThanOrEqual(trueTime);
    expect(databaseClock.at(clock.monotonic())).toBe(trueTime - given.backMs);
  },
);

test('a slow answer does not replace what a quick one said', async () => {
  const clock = new HandClock();
  const { way, databaseClock } = openSlowDatabase(clock);
  await databaseClock.synchronize();
  way.backMs = SLOW_REPLY_MS;
  await databaseClock.synchronize();
  expect(databaseClock.at(clock.monotonic())).toBe(clock.monotonic() + AHEAD_MS);
});

test('a quick answer follows a database clock that was set back', async () => {
  const clock = new HandClock();
  const { way, databaseClock } = openSlowDatabase(clock);
  await databaseClock.synchronize();
  way.aheadMs = AHEAD_MS - 60_000;
  await databaseClock.synchronize();
  expect(databaseClock.at(clock.monotonic())).toBe(clock.monotonic() + AHEAD_MS - 60_000);
});

/** Bug: a start that waits for the database starts the clock at each try, and all timers but the last went on for ever. */
test('a clock that was started more than once asks no more after its stop', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { databaseClock } = openSlowDatabase(new HandClock());
  await databaseClock.start();
  await databaseClock.start();
  expect(vi.getTimerCount()).toBe(1);
  databaseClock.stop();
  expect(vi.getTimerCount()).toBe(0);
});
