import { expect, test } from 'vitest';

/** The benchmark is plain JavaScript: it has no types. */
const benchmark = (module: string) => import(new URL(`../../bench/${module}`, import.meta.url).href);
const { between, perOperation } = await benchmark('costs.mjs');
const { ratiosOf, ratioTable } = await benchmark('tables.mjs');

const HTTP_ROW = 'first payment over HTTP';

const answered = (requestsPerSecond: number, cpuUs: Record<string, number> = {}) => ({
  requestsPerSecond,
  costs: { cpuUs },
});

const run = (name: string, rounds: object[]) => ({ kind: 'rates', deployment: 'embedded', rows: [{ name, rounds }] });

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
  expect(apart.median).toBeCloseTo(0.1 / 0.6);
  expect(apart.target).toBe(0.36);
  expect(relayed).toMatchObject({ name: 'relay over HTTP, its cost apart', median: 0.4, target: undefined });
});

test('costs for an operation are the difference of two readings, also of what the first one did not have', () => {
  const before = { cpuUs: { service: 100 }, redis: { calls: { get: 1 } } };
  const after = { cpuUs: { service: 300 }, redis: { calls: { get: 5, set: 2 } } };
  expect(perOperation(between(before, after), 2)).toEqual({
    cpuUs: { service: 100 },
    redis: { calls: { get: 2, set: 1 } },
  });
});
