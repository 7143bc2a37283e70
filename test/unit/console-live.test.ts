import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Grid } from '../../console/src/live/grid.js';
import { History } from '../../console/src/live/history.js';
import { added, quantile } from '../../console/src/live/quantiles.js';
import type { Sample } from '../../console/src/live/sample.js';

const INTERVAL_MS = 5_000;
const KEEP_MS = 60_000;
const NOW = 1_000_000_000;

function sample(instance: string, at: number, more: Partial<Sample> = {}): Sample {
  const none = { bounds: [], counts: [0] };
  return {
    type: 'sample',
    at,
    instance,
    process: { host: 'host', pid: 1, version: '1', startedAt: NOW - KEEP_MS },
    spanMs: INTERVAL_MS,
    payments: { processed: 10 },
    latency: none,
    cache: { hit: 0, miss: 0, bypass: 0 },
    lists: { sent: 0, notModified: 0 },
    attempts: { request: 0, recovery: 0 },
    waiters: 0,
    backlog: null,
    queues: {},
    commit: none,
    stores: {},
    processorUp: true,
    memoryBytes: 1,
    loopDelay: none,
    ...more,
  };
}

const series = (instance: string, from: number, to: number) =>
  Array.from({ length: Math.floor((to - from) / INTERVAL_MS) + 1 }, (_, step) =>
    sample(instance, from + step * INTERVAL_MS),
  );

function gridOf(samples: readonly Sample[], now = NOW) {
  const history = new History(KEEP_MS);
  for (const one of samples) history.add(one);
  const grid = new Grid(INTERVAL_MS, KEEP_MS);
  grid.fill(history.processes, now);
  return grid;
}

describe('the history of the live view', () => {
  test('takes each sample once, in whatever order they come', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(11), { minLength: 1 }), (steps) => {
        const history = new History(KEEP_MS);
        // The newest first, so that none is too old.
        history.add(sample('a', NOW));
        for (const step of steps) history.add(sample('a', NOW - step * INTERVAL_MS));
        const times = history.processes[0]?.samples.map(({ at }) => at) ?? [];
        const expected = [...new Set([0, ...steps])].map((step) => NOW - step * INTERVAL_MS).sort((a, b) => a - b);
        expect(times).toEqual(expected);
      }),
    );
  });

  test('holds no more after an hour than after a minute, and forgets processes that ended', () => {
    const history = new History(KEEP_MS);
    for (let step = 0; step < 720; step += 1) {
      const at = NOW + step * INTERVAL_MS;
      // A deploy every five minutes.
      history.add(sample(`process ${Math.floor(step / 60)}`, at));
      const kept = history.processes.reduce((sum, { samples }) => sum + samples.length, 0);
      expect(kept).toBeLessThanOrEqual(KEEP_MS / INTERVAL_MS);
      expect(history.processes.length).toBeLessThanOrEqual(2);
    }
  });

  test('keeps a bounded number of processes', () => {
    const history = new History(KEEP_MS);
    for (let index = 0; index < 1_000; index += 1) history.add(sample(`process ${index}`, NOW + index));
    expect(history.processes.length).toBe(100);
  });

  /** Bug: an open page stood still after the service's clock was set back. Cause: it took its time from the samples of the future. */
  test('begins anew when the clock of the service was set back', () => {
    const history = new History(KEEP_MS);
    history.addAnswer(series('a', NOW - 30_000, NOW));
    const setTo = NOW - 3_600_000;
    expect(history.addAnswer(series('a', setTo - 30_000, setTo))).toBe(7);
    expect([history.latestAt, history.processes.map(({ samples }) => samples.length)]).toEqual([setTo, [7]]);
    expect(history.addAnswer(series('a', setTo, setTo + INTERVAL_MS))).toBe(1);
    expect(history.latestAt).toBe(setTo + INTERVAL_MS);
  });

  test('keeps what it has when a service that was started again has only new samples, or none', () => {
    const history = new History(KEEP_MS);
    history.addAnswer(series('a', NOW - 30_000, NOW));
    history.addAnswer([]);
    history.addAnswer([sample('b', NOW + 2 * INTERVAL_MS)]);
    expect(history.processes.map(({ instance }) => instance)).toEqual(['a', 'b']);
  });
});

describe('the grid of the live view', () => {
  test('covers each moment once, whenever a process samples and however long its spans are', () => {
    fc.assert(
      fc.property(
        fc.nat(4_999),
        fc.array(fc.integer({ min: 4_900, max: 5_200 }), { minLength: 20, maxLength: 20 }),
        (phase, spans) => {
          let at = NOW - KEEP_MS - 20_000 + phase;
          const samples = spans.map((spanMs) => {
            at += spanMs;
            return sample('a', at, { spanMs });
          });
          const { covering, lastIndex, times } = gridOf(samples, Math.max(NOW, at));
          const counts = covering.slice(0, lastIndex + 1).map(({ length }) => length);
          const first = counts.indexOf(1);
          expect(counts.slice(first)).toEqual(counts.slice(first).map(() => 1));
          expect(times[lastIndex] ?? 0).toBeGreaterThan(at - INTERVAL_MS - 1);
        },
      ),
    );
  });

  test('has a gap where nothing was heard, and no zero', () => {
    const { covering, times } = gridOf([...series('a', NOW - 55_000, NOW - 40_000), ...series('a', NOW - 10_000, NOW)]);
    const silent = times.filter((_, index) => covering[index]?.length === 0);
    expect(silent).toEqual([-35_000, -30_000, -25_000, -20_000].map((ms) => NOW + ms));
  });

  test('adds up processes that sample at different moments', () => {
    const { covering, lastIndex } = gridOf([...series('a', NOW - 55_000, NOW), ...series('b', NOW - 53_000, NOW)]);
    expect(covering.slice(2, lastIndex + 1).every(({ length }) => length === 2)).toBe(true);
  });

  test('waits for each living process, so that a line does not drop at its end', () => {
    const samples = [...series('a', NOW - 55_000, NOW), ...series('b', NOW - 54_000, NOW - 6_000)];
    const { covering, lastIndex, times } = gridOf(samples);
    expect(times[lastIndex]).toBe(NOW - 10_000);
    expect(covering[lastIndex]?.length).toBe(2);
  });

  test('does not wait for one that is silent', () => {
    const { covering, lastIndex, times } = gridOf([
      ...series('a', NOW - 55_000, NOW),
      ...series('b', NOW - 55_000, NOW - 20_000),
    ]);
    expect(times[lastIndex]).toBe(NOW);
    expect(covering[lastIndex]?.map(({ instance }) => instance)).toEqual(['a']);
  });

  test('ends a gap where all processes report again', () => {
    const samples = ['a', 'b'].flatMap((name, index) => [
      ...series(name, NOW - 55_000, NOW - 40_000 + index * 5_000),
      ...series(name, NOW - 15_000 + index * 5_000, NOW),
    ]);
    const counts = gridOf(samples).covering.map(({ length }) => length);
    expect(counts.filter((count) => count === 1)).toEqual([]);
  });
});

describe('percentiles of counts', () => {
  const bounds = [0.001, 0.01, 0.1, 1];

  test('lie in the bucket of the values that were counted', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1 }),
        fc.constantFrom(0.5, 0.95, 0.99),
        (values, share) => {
          const counts = [...bounds, Number.POSITIVE_INFINITY].map(
            (upper, index, all) => values.filter((value) => value <= upper && value > (all[index - 1] ?? -1)).length,
          );
          const sorted = values.sort((a, b) => a - b);
          const exact = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
          const upper = bounds.find((bound) => exact <= bound) ?? 1;
          const lower = bounds[bounds.indexOf(upper) - 1] ?? 0;
          const found = quantile(share, { bounds, counts }) ?? -1;
          expect(found).toBeGreaterThanOrEqual(lower - 1e-12);
          expect(found).toBeLessThanOrEqual(upper + 1e-12);
        },
      ),
    );
  });

  test('are none where nothing was counted', () => {
    expect(quantile(0.5, { bounds, counts: [0, 0, 0, 0, 0] })).toBeNull();
    expect(quantile(0.5, added([]))).toBeNull();
  });

  test('of values above all bounds are the last bound', () => {
    expect(quantile(0.5, { bounds, counts: [0, 0, 0, 0, 3] })).toBe(1);
  });

  test('are those of all processes together, also where bounds differ', () => {
    const one = { bounds, counts: [1, 2, 0, 0, 0] };
    expect(added([one, one]).counts).toEqual([2, 4, 0, 0, 0]);
    expect(added([one, { bounds: [0.005, 5], counts: [4, 8, 16] }]).counts).toEqual([1, 6, 0, 0, 24]);
  });
});
