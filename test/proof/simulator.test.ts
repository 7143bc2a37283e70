import { describe, expect, test } from 'vitest';
import type { Environment, RunResult } from '../../proof/simulator/environment.js';
import { runPlan, runSeed } from '../../proof/simulator/one-seed.js';
import { paymentEnvironment } from '../../proof/simulator/payments/payment-environment.js';
import { shrink } from '../../proof/simulator/shrink.js';
import { transactionEnvironment } from '../../proof/simulator/transactions/transaction-environment.js';
import { seedFrom } from '../../testkit/random.js';

const isLong = process.env.SIMULATOR_SEEDS !== undefined;
/** From 0, for regression; with SIMULATOR_SEEDS so many fresh ones, whose first is printed. */
const SEEDS = Number(process.env.SIMULATOR_SEEDS ?? 40);
const FIRST = isLong ? seedFrom('SIMULATOR_FROM') : 0;
const LIMIT_MS = 60_000 + SEEDS * 1_000;
const FAILURES = 5;
const SHRINK_LIMIT_MS = 10_000;
/** Of the shortest history of a planted mistake: a screen and a half. */
const SHORT_TRACE = 120;

const PAYMENT_COUNTS = ['takeovers', 'crashes', 'losses', 'pauses', 'drains', 'group commits', 'payments removed'];
const TRANSACTION_COUNTS = ['hits', 'misses', 'crashes', 'losses', 'drains', 'answers: set', 'answers: list'];

describe('the simulator', () => {
  test.each([
    ['payments keep every promise', paymentEnvironment() as Environment<unknown>, SEEDS, PAYMENT_COUNTS],
    ['the cache is coherent', transactionEnvironment() as Environment<unknown>, SEEDS / 2, TRANSACTION_COUNTS],
  ])('%s through its seeds', { timeout: LIMIT_MS }, async (_what, environment, seeds, counted) => {
    const broken: { seed: number; violations: readonly string[] }[] = [];
    const counts = new Map<string, number>();
    for (let seed = FIRST; seed < FIRST + seeds; seed += 1) {
      const result = await runSeed(environment, seed);
      if (result.violations.length > 0) broken.push({ seed, violations: result.violations });
      for (const [what, times] of result.counts) counts.set(what, (counts.get(what) ?? 0) + times);
    }
    expect(broken).toEqual([]);
    for (const what of counted) expect(counts.get(what), what).toBeGreaterThan(seeds / 20);
  });

  test.each([
    ['payments', paymentEnvironment() as Environment<unknown>],
    ['transactions', transactionEnvironment() as Environment<unknown>],
  ])('one seed of %s is one history, and two seeds are two', async (_name, environment) => {
    const [first, again, other] = [await run(environment, 1), await run(environment, 1), await run(environment, 2)];
    expect(again.digest).toBe(first.digest);
    expect(other.digest).not.toBe(first.digest);
    const traced = await runPlan(environment, environment.plan(1), { trace: true });
    expect(traced.digest).toBe(first.digest);
    expect(traced.trace.length).toBeGreaterThan(100);
  });

  test('finds a ledger that grants a claim twice, and shows it in a few lines', { timeout: LIMIT_MS }, async () => {
    const environment = paymentEnvironment(({ postgres }) => {
      if (!postgres) return;
      const execute = postgres.execute.bind(postgres);
      postgres.execute = (statement, values, ...rest) => {
        if (statement.name === 'claim') for (const key of values[0] as string[]) postgres.tables.payments.delete(key);
        return execute(statement, values, ...rest);
      };
    });
    const { trace, violations } = await shortestFailure(environment);
    expect(violations.join()).toMatch(/charged|claimed again/);
    expect(trace.length).toBeLessThan(SHORT_TRACE);
  });

  test('finds a cache in which no write mark stands, and shows it in a few lines', { timeout: LIMIT_MS }, async () => {
    const environment = transactionEnvironment(({ redis }) => {
      if (!redis) return;
      const evalsha = redis.evalsha.bind(redis);
      redis.evalsha = (...given) => {
        const reply = evalsha(...given);
        redis.forget((key) => key.endsWith(':marks'));
        return reply;
      };
    });
    const { trace, violations } = await shortestFailure(environment);
    expect(violations.join()).toMatch(/was read|have no order/);
    expect(trace.length).toBeLessThan(SHORT_TRACE);
  });
});

function run<Plan>(environment: Environment<Plan>, seed: number): Promise<RunResult> {
  return runPlan(environment, environment.plan(seed));
}

/** Of the first few seeds that fail, the one with the shortest history. */
async function shortestFailure<Plan>(environment: Environment<Plan>): Promise<RunResult> {
  let shortest: RunResult | undefined;
  let failures = 0;
  for (let seed = 0; failures < FAILURES && seed < 1_000; seed += 1) {
    const plan = environment.plan(seed);
    if ((await runPlan(environment, plan)).violations.length === 0) continue;
    failures += 1;
    const failure = await runPlan(environment, await shrink(environment, plan, SHRINK_LIMIT_MS), { trace: true });
    if (failure.trace.length < (shortest?.trace.length ?? Infinity)) shortest = failure;
    if (failure.trace.length < SHORT_TRACE) break;
  }
  if (!shortest) throw new Error('no seed failed');
  return shortest;
}
