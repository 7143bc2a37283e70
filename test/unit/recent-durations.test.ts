import { describe, expect, test } from 'vitest';
import { RecentDurations } from '#idempay/payments/recent-durations.js';

/** As many as are remembered. */
const WINDOW = 64;

describe('recent durations', () => {
  test('before anything was measured, the typical duration is believed', () => {
    expect(new RecentDurations(250).medianMs()).toBe(250);
  });

  test('one measurement replaces the typical duration', () => {
    const durations = new RecentDurations(250);
    durations.add(40);
    expect(durations.medianMs()).toBe(40);
  });

  test('the median is by size and not by text or by time, so that one slow payment does not matter', () => {
    const durations = new RecentDurations(0);
    for (const durationMs of [9, 100_000, 10]) durations.add(durationMs);
    expect(durations.medianMs()).toBe(10);
  });

  test('a processor that turned slow is followed once it has been slow for half of what is remembered', () => {
    const durations = new RecentDurations(0);
    for (let payment = 0; payment < 10 * WINDOW; payment += 1) durations.add(5);
    for (let payment = 0; payment < WINDOW / 2 - 1; payment += 1) durations.add(900);
    expect(durations.medianMs()).toBe(5);
    for (let payment = 0; payment < 2; payment += 1) durations.add(900);
    expect(durations.medianMs()).toBe(900);
  });
});
