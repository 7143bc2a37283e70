import { describe, expect, test } from 'vitest';
import { createTransactionIds } from '#idempay/payments/values/transaction-id.js';

const NOW = 1_700_000_000_000;
/** Behind the time part there are always six random digits. */
const timePart = (id: string) => id.slice(0, -6);

/** Each time part is later than the one before; all have one length, so that they also rise as text. */
function expectRising(ids: readonly string[]): void {
  const times = ids.map(timePart);
  expect(times).toEqual([...new Set(times)].sort());
}

describe('transaction ids', () => {
  test('are TXN and digits only, and begin with the time of processing', () => {
    expect(createTransactionIds(() => NOW)()).toMatch(new RegExp(`^TXN${NOW}[0-9]{9}$`));
  });

  test('rise strictly while the clock stands still, for longer than it has steps in a millisecond', () => {
    const ids = Array.from(
      { length: 5_000 },
      createTransactionIds(() => NOW),
    );
    expectRising(ids);
    expect(new Set(ids.map(({ length }) => length))).toEqual(new Set([25]));
  });

  test('go on rising when the clock is set back, and follow it again when it has caught up', () => {
    const times = [NOW, NOW, NOW - 3_600_000, NOW - 3_600_000, NOW + 1];
    const newId = createTransactionIds(() => times.shift() as number);
    const ids = Array.from({ length: times.length }, newId);
    expectRising(ids);
    expect(ids.at(-1)).toMatch(new RegExp(`^TXN${NOW + 1}`));
  });

  test('of two processes in the same millisecond differ in their random digits', () => {
    const ids = Array.from({ length: 50 }, () => createTransactionIds(() => NOW)());
    expect(new Set(ids.map(timePart)).size).toBe(1);
    // Fifty draws from a million: a collision or two may happen, fifty equal ones do not.
    expect(new Set(ids).size).toBeGreaterThan(40);
  });
});
