import { v7 as uuidV7 } from 'uuid';
import { describe, expect, test } from 'vitest';
import { generateIdempotencyKey } from '#idempay/payments/values/idempotency-key.js';
import { keyTimeOf, lowestKeyAt } from '#idempay/payments/values/key-time.js';

const MOMENT = Date.UTC(2026, 10, 20, 13, 14, 15, 167);
const LATEST_MS = 2 ** 48 - 1;
const ALL_BITS = { rng: () => new Uint8Array(16).fill(0xff), seq: 2 ** 32 - 1 };
const NO_BITS = { rng: () => new Uint8Array(16), seq: 0 };

describe('the lowest key of a moment', () => {
  test('is the key that is generated then with nothing but zeros behind its time', () => {
    expect(lowestKeyAt(MOMENT)).toBe(uuidV7({ msecs: MOMENT, ...NO_BITS }));
  });

  test('is above every key of the millisecond before', () => {
    expect(lowestKeyAt(MOMENT) > uuidV7({ msecs: MOMENT - 1, ...ALL_BITS })).toBe(true);
  });

  test.each([0, 1, MOMENT, LATEST_MS])('at %s ms has the form of a key, and this time', (ms) => {
    expect(lowestKeyAt(ms)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7000-8000-0{12}$/);
    expect(keyTimeOf(lowestKeyAt(ms))).toBe(ms);
  });

  test('within a millisecond is that of the next one: no key of this one is generated later', () => {
    expect(lowestKeyAt(MOMENT + 0.25)).toBe(lowestKeyAt(MOMENT + 1));
  });

  test('outside of what a key can hold is that of the nearest moment', () => {
    expect(lowestKeyAt(-1)).toBe(lowestKeyAt(0));
    expect(lowestKeyAt(Number.MAX_SAFE_INTEGER)).toBe(lowestKeyAt(LATEST_MS));
  });
});

describe('the time of a key', () => {
  test('is when it was generated', () => {
    expect(keyTimeOf(uuidV7({ msecs: MOMENT }))).toBe(MOMENT);
    const before = Date.now();
    const time = keyTimeOf(generateIdempotencyKey());
    expect(time).toBeGreaterThanOrEqual(before);
    // The generator never goes back: keys of a busy millisecond may borrow from the next ones.
    expect(time).toBeLessThanOrEqual(Date.now() + 1);
  });
});
