import { expect, test } from 'vitest';
import { between, perOperation } from '../../bench/costs.js';
import type { Answered, RateRow, Round, Run } from '../../bench/results.js';
import { ratiosOf, ratioTable } from '../../bench/tables.js';
import { causeOf } from '../../bench/tail.js';

const HTTP_ROW = 'first payment over HTTP';

const answered = (requestsPerSecond: number, cpuUs: Record<string, number> = {}): Answered => ({
  requests: requestsPerSecond,
  requestsPerSecond,
  p50Ms: 1,
  p99Ms: 2,
  used: requestsPerSecond,
  processors: 2,
  costs: { cpuUs },
});

const run = (name: string, rounds: readonly Round[]): Run<RateRow> => {
  const row = { name, rounds, connections: 64, seconds: 2, measuredAt: '2026-01-01T00:00:00.000Z' };
  return { kind: 'rates', deployment: 'embedded', rows: [row] };
};

test('a ratio is the median of ratios within a round, not of rates over all rounds', () => {
  const rounds = [
    { ours: answered(90), bare: answered(100) },
    { ours: answered(10), bare: answered(20) },
    { ours: answered(600), bare: answered(1000) },
  ];
  expect(ratiosOf(run('repeat', rounds))).toEqual([
    { name: 'repeat', median: 0.6, lowest: 0.5, highest: 0.9, target: 0.9 },
  ]);
});

test('a ratio below its target is called missed, one that reaches it met', () => {
  const rate = (ours: number) => ratioTable([run('repeat', [{ ours: answered(ours), bare: answered(100) }])]);
  expect(rate(89)).toContain('0.9, missed');
  expect(rate(90)).toContain('0.9, met');
});

test('the cost of the processor apart: a rate that the same CPU time is enough for without it', () => {
  const ours = answered(100, { service: 50, generator: 10, processor: 40 });
  const relay = answered(200, { service: 15, generator: 5, processor: 20 });
  const [measured, apart, relayed] = ratiosOf(run(HTTP_ROW, [{ ours, relay, bare: answered(1000) }]));
  expect(measured).toMatchObject({ name: HTTP_ROW, median: 0.1, target: undefined });
  expect(apart?.median).toBeCloseTo(0.1 / 0.6);
  expect(apart?.target).toBe(0.36);
  expect(relayed).toMatchObject({ name: 'relay over HTTP, its cost apart', median: 0.4, target: undefined });
});

test('costs for an operation are the difference of two readings, also of what the first one did not have', () => {
  const before = { cpuUs: { service: 100 }, service: { roundTrips: { 'redis begin': 1 } } };
  const after = { cpuUs: { service: 300 }, service: { roundTrips: { 'redis begin': 5, 'redis end': 2 } } };
  expect(perOperation(between(before, after), 2)).toEqual({
    cpuUs: { service: 100 },
    service: { roundTrips: { 'redis begin': 2, 'redis end': 1 } },
  });
});

type Noted = readonly [what: string, from: number, to: number];

test.each<[what: string, cause: string, ...noted: Noted[]]>([
  ['a commit, of which the wait for the writer is the rest', 'commit', ['commit', 4, 14], ['writer', 2, 15]],
  ['a collection within a statement', 'young collection', ['PostgreSQL', 1, 18], ['young collection', 3, 15]],
  ['what covers the most', 'Redis', ['turn of the event loop', 1, 3], ['Redis', 5, 12]],
  ['a time before it was sent', 'client', ['commit', 12, 16], ['client', 1, 8]],
  ['nothing of it', 'none of these', ['commit', 30, 60], ['young collection', 1, 3]],
])('a slow request is attributed to %s', (_what, cause, ...noted) => {
  const intervals = noted.map(([what, from, to]) => ({ what, from, to }));
  expect(causeOf({ dueAt: 0, sentAt: 0, answeredAt: 20 }, intervals)).toBe(cause);
});

test('the wait for a connection of the client is its own', () => {
  expect(causeOf({ dueAt: 0, sentAt: 12, answeredAt: 20 }, [])).toBe('client');
});
