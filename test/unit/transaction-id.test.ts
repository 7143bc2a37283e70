import { describe, expect, test } from 'vitest';
import { createTransactionIds } from '#idempay/payments/values/transaction-id.js';

const NOW = 1_700_000_000_000;
/** Behind the time part there are always so many random digits. */
const RANDOM_DIGITS = 6;

const timePart = (id: string) => BigInt(id.slice('TXN'.length, -RANDOM_DIGITS));

function expectRising(ids: readonly string[]): void {
  for (const [index, id] of ids.entries()) {
    const before = ids[index - 1];
    if (before !== undefined) expect(timePart(id)).toBeGreaterThan(timePart(before));
  }
}

describe('transaction ids', () => {
  test('are TXN and digits only, and begin with the time of processing', () => {
    const id = createTransactionIds(() => NOW)();
    expect(id).toMatch(/^TXN[0-9]{22}$/);
    expect(id.startsWith(`TXN${NOW}`)).toBe(true);
  });

  test('all have the same length, so that they also rise as text', () => {
    const newId = createTransactionIds(() => NOW);
    const ids = Array.from({ length: 5_000 }, newId);
    expect(new Set(ids.map((id) => id.length))).toEqual(new Set([25]));
    expect(ids.toSorted()).toEqual(ids);
  });

  test('rise strictly while the clock stands still, for longer than it has steps in a millisecond', () => {
    const newId = createTransactionIds(() => NOW);
    const ids = Array.from({ length: 5_000 }, newId);
    expectRising(ids);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('go on rising when the clock is set back, and follow it again when it has caught up', () => {
    let now = NOW;
    const newId = createTransactionIds(() => now);
    const before = [newId(), newId()];
    now = NOW - 3_600_000;
    const setBack = [newId(), newId()];
    now = NOW + 1;
    const caughtUp = newId();
    expectRising([...before, ...setBack, caughtUp]);
    expect(caughtUp.startsWith(`TXN${NOW + 1}`)).toBe(true);
  });

  test('of two processes in the same millisecond differ in their random digits', () => {
    const ids = Array.from({ length: 50 }, () => createTransactionIds(() => NOW)());
    expect(new Set(ids.map(timePart)).size).toBe(1);
    // Fifty draws from a million: a collision or two may happen, fifty equal ones do not.
    expect(new Set(ids).size).toBeGreaterThan(40);
  });
});
