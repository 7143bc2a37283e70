import { expect, test } from 'vitest';
import { createKeyTimes } from '#idempay/payments/key-times.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const HORIZON_MS = 2_000_000;

function keyTimesAt(nowMs: number) {
  const clock = new HandClock(nowMs);
  const keyTimes = createKeyTimes((atMs) => `${atMs ?? 'now'}`, clock);
  return { clock, keyTimes };
}

test('a key has the time of the clock, and none below what the ledger refuses', () => {
  const { clock, keyTimes } = keyTimesAt(1_000_000);
  expect(keyTimes.newKey()).toBe('now');
  keyTimes.noted(HORIZON_MS);
  expect(keyTimes.newKey()).toBe(`${HORIZON_MS}`);
  clock.advance(1_000_000);
  expect(keyTimes.newKey()).toBe('now');
});

test('the lowest time is that of every key since it was noted, and of the present', () => {
  const { clock, keyTimes } = keyTimesAt(3_000_000);
  keyTimes.noted(HORIZON_MS);
  keyTimes.newKey();
  clock.advance(500);
  expect(keyTimes.lowestMs()).toBe(3_000_000);
  // The answer was lost: it is told again, with what came since.
  clock.advance(500);
  expect(keyTimes.lowestMs()).toBe(3_000_000);
  keyTimes.newKey();
  keyTimes.noted(HORIZON_MS);
  clock.advance(500);
  expect(keyTimes.lowestMs()).toBe(3_001_000);
});

test('the lowest time of a clock that is behind is the horizon, where its keys are', () => {
  const { keyTimes } = keyTimesAt(1_000_000);
  keyTimes.noted(HORIZON_MS);
  keyTimes.newKey();
  expect(keyTimes.lowestMs()).toBe(HORIZON_MS);
});
