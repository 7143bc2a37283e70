import { expect, test } from 'vitest';
import { createAlarm } from '#idempay/payments/processors/alarm.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

test('an alarm sounds at once, then at most every ten seconds, and says how many causes it swallowed', () => {
  const clock = new HandClock(0);
  const sounded: [string, number][] = [];
  const alarm = createAlarm((cause, swallowed) => sounded.push([cause, swallowed]), clock);
  for (const [at, cause] of [
    [5, 'first'],
    [5, 'second'],
    [10_004, 'third'],
    [10_005, 'fourth'],
    [10_006, 'fifth'],
    [99_000, 'sixth'],
    [109_000, 'seventh'],
  ] as const) {
    clock.advance(at - clock.now());
    alarm(cause);
  }
  expect(sounded).toEqual([
    ['first', 0],
    ['fourth', 2],
    ['sixth', 1],
    ['seventh', 0],
  ]);
});
