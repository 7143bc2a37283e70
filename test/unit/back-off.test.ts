import { expect, test } from 'vitest';
import { backOffMs } from '#idempay/payments/recovery.js';

test.each([
  [0, 1_000],
  [999, 1_000],
  [4_000, 4_000],
  [60_000, 60_000],
  [72_000_000, 60_000],
])('recovery leaves a payment that is unknown for %i ms alone for %i ms', (ageMs, patienceMs) => {
  expect(backOffMs(ageMs)).toBe(patienceMs);
});
