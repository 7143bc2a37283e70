import { setImmediate as settle } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Exposition } from '#idempay/metrics/exposition.js';
import { createMetrics } from '#idempay/metrics/metrics.js';
import { createBacklogWatch } from '#idempay/payments/backlog.js';
import { createSimulatedProcessor } from '#idempay/payments/processors/simulated.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { readSamples, sumOf } from '../../testkit/client/metrics.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

describe('a histogram', () => {
  test('counts a value in every bucket whose bound it does not exceed', () => {
    const exposition = new Exposition();
    const histogram = exposition.histogram('sizes', 'Help.', [1, 10]);
    const add = histogram.of({ of: 'a' });
    for (const size of [1, 2, 10, 11]) add(size);
    histogram.of({ of: 'b' })(5);
    const samples = readSamples(exposition.text());
    const counts = (label: string) =>
      ['1', '10', '+Inf'].map((le) => sumOf(samples, 'sizes_bucket', { of: label, le }));
    expect(counts('a')).toEqual([1, 3, 4]);
    expect(counts('b')).toEqual([0, 1, 1]);
    expect(['sum', 'count'].map((part) => sumOf(samples, `sizes_${part}`, { of: 'a' }))).toEqual([24, 4]);
  });

  test('has one series for the same labels, for every caller', () => {
    const exposition = new Exposition();
    const histogram = exposition.histogram('sizes', 'Help.', [1]);
    histogram.of({ of: 'a' })(1);
    histogram.of({ of: 'a' })(1);
    const samples = readSamples(exposition.text());
    expect(samples.filter(({ name }) => name === 'sizes_count')).toEqual([
      { name: 'sizes_count', labels: { of: 'a' }, value: 2 },
    ]);
  });
});

test('counters and gauges show the values at the time of a scrape, and no earlier ones', () => {
  const exposition = new Exposition();
  let readings = [[{ of: 'a "b"\\c\n' }, 3] as const];
  exposition.counter('things_total', 'Help.', () => readings);
  exposition.gauge('things', 'Help.', () => readings);
  // Not 0, which would say something.
  exposition.gauge('unknown', 'Help.', () => []);
  expect(exposition.text()).toContain('things_total{of="a \\"b\\"\\\\c\\n"} 3');
  readings = [];
  expect(readSamples(exposition.text())).toEqual([]);
});

/** Bug: settlements with an event of the timeline, as after takeovers, were missing. */
test('the live view counts every claim and settlement as a commit of PostgreSQL', () => {
  const metrics = createMetrics('distributed', { open: 0, refused: 0 }, () => true);
  onTestFinished(() => metrics.stop());
  metrics.measured(createSimulatedProcessor(0));
  metrics.showBacklog(() => undefined);
  for (const operation of ['claim', 'settle', 'settle_noted', 'list_version']) {
    const trips = metrics.stores.roundTrips('postgresql', operation);
    trips.end(trips.begin());
  }
  const { counts } = metrics.look().totals.commit;
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(3);
});

describe('the backlog of recovery', () => {
  const EVERY_MS = 10_000;

  function watch(answers: readonly (object | Error)[]) {
    const clock = new HandClock();
    let asked = 0;
    const backlog = async () => {
      const answer = answers[asked];
      asked += 1;
      if (answer instanceof Error) throw answer;
      return answer as { payments: number; oldestMs: number };
    };
    const pendingBacklog = async () => ({ payments: 2, oldestMs: 100, pastUntil: 1 });
    const watching = createBacklogWatch({ backlog, pendingBacklog }, clock);
    watching.start();
    const pass = async (ms: number) => {
      await settle();
      clock.advance(ms);
      await settle();
    };
    return { watching, pass, asked: () => asked, clock };
  }

  test('grows older between two looks, without asking the store', async () => {
    const { watching, pass, asked } = watch([
      { payments: 2, oldestMs: 500 },
      { payments: 0, oldestMs: 0 },
    ]);
    expect(watching.latest()).toBeUndefined();
    await pass(EVERY_MS - 1);
    expect(watching.latest()).toEqual({ payments: 2, oldestMs: 500 + EVERY_MS - 1 });
    expect(watching.latestPending()).toEqual({ payments: 2, oldestMs: 100 + EVERY_MS - 1, pastUntil: 1 });
    expect(asked()).toBe(1);
    await pass(1);
    await pass(1_000);
    expect(watching.latest()).toEqual({ payments: 0, oldestMs: 0 });
  });

  test('stays as it was last seen while the store is down, and is looked at again', async () => {
    const away = new StoreUnavailable('unchanged', 'the store is down');
    const { watching, pass, asked } = watch([{ payments: 1, oldestMs: 0 }, away, { payments: 3, oldestMs: 7 }]);
    await pass(EVERY_MS);
    expect(watching.latest()).toMatchObject({ payments: 1, oldestMs: EVERY_MS });
    await pass(EVERY_MS);
    expect(watching.latest()).toMatchObject({ payments: 3 });
    expect(asked()).toBe(3);
  });

  test('is not looked at after its end', async () => {
    const { watching, pass, asked, clock } = watch([{ payments: 1, oldestMs: 0 }]);
    await settle();
    await watching.stop();
    await pass(EVERY_MS);
    expect([asked(), clock.pending]).toEqual([1, 0]);
  });
});
