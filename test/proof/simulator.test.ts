import { describe, expect, test } from 'vitest';
import { runPlan, runSeed } from '../../proof/simulator/one-seed.js';
import { paymentWorld, paymentWorldWith } from '../../proof/simulator/payments/payment-world.js';
import { shrink } from '../../proof/simulator/shrink.js';
import { transactionWorld, transactionWorldWith } from '../../proof/simulator/transactions/transaction-world.js';
import type { RunResult, World } from '../../proof/simulator/world.js';

const FAILURES = 5;
/** Enough to see most kinds of trouble every time; the report's run has hundreds of times as many (`npm run simulate`). */
const PAYMENT_SEEDS = 350;
const TRANSACTION_SEEDS = 150;
/** A machine that does a lot beside. */
const SEEDS_LIMIT_MS = 240_000;

const SHRINK_LIMIT_MS = 10_000;
/** Of the shortest history of a planted mistake: a screen and a half. */
const SHORT_TRACE = 90;

describe('the simulator', () => {
  test(`payments keep every promise through ${PAYMENT_SEEDS} seeds`, { timeout: SEEDS_LIMIT_MS }, async () => {
    const { broken, counts } = await runSeeds(paymentWorld, 0, PAYMENT_SEEDS);
    expect(broken).toEqual([]);
    for (const what of ['takeovers', 'crashes', 'losses', 'pauses', 'claims too late', 'answers after a wait']) {
      expect(counts.get(what), what).toBeGreaterThan(PAYMENT_SEEDS / 10);
    }
  });

  test(`the cache is coherent through ${TRANSACTION_SEEDS} seeds`, { timeout: SEEDS_LIMIT_MS }, async () => {
    const { broken, counts } = await runSeeds(transactionWorld, 0, TRANSACTION_SEEDS);
    expect(broken).toEqual([]);
    for (const what of ['hits', 'fills', 'crashes', 'losses', 'answers: set', 'answers: list']) {
      expect(counts.get(what), what).toBeGreaterThan(TRANSACTION_SEEDS / 10);
    }
  });

  test.each([
    ['payments', paymentWorld as World<unknown>],
    ['transactions', transactionWorld as World<unknown>],
  ])('two seeds are two histories, and one seed is one (%s)', async (_name, world) => {
    const [first, again, other] = [await runSeed(world, 1), await runSeed(world, 1), await runSeed(world, 2)];
    expect(again.digest).toBe(first.digest);
    expect(other.digest).not.toBe(first.digest);
    const traced = await runPlan(world, world.plan(1), { trace: true });
    expect(traced.digest).toBe(first.digest);
    expect(traced.trace.length).toBeGreaterThan(100);
  });

  test('finds a ledger that claims what is claimed already, and tells it in a few lines', async () => {
    const world = paymentWorldWith(({ rows }) => {
      const insert = rows.insert.bind(rows);
      rows.insert = (attempt, claimBefore) => {
        rows.byKey.delete(attempt.key);
        return insert(attempt, claimBefore);
      };
    });
    const { trace, violations } = await shortestFailure(world);
    expect(violations.join()).toMatch(/charged/);
    expect(trace.length).toBeLessThan(SHORT_TRACE);
  });

  test('finds a cache that fills in whatever it is given, and tells it in a few lines', async () => {
    const world = transactionWorldWith(({ cacheServer }) => {
      if (!cacheServer) return;
      const fill = cacheServer.fill.bind(cacheServer);
      cacheServer.fill = (id, _token, transaction, ttlMs) => {
        cacheServer.forget(id);
        cacheServer.lookUp(id, 'a token');
        return fill(id, 'a token', transaction, ttlMs);
      };
    });
    const { trace, violations } = await shortestFailure(world);
    expect(violations.join()).toMatch(/was read|have no order/);
    expect(trace.length).toBeLessThan(SHORT_TRACE);
  });
});

async function runSeeds<Plan>(world: World<Plan>, from: number, seeds: number) {
  const broken: { seed: number; violations: readonly string[] }[] = [];
  const counts = new Map<string, number>();
  for (let seed = from; seed < from + seeds; seed += 1) {
    const result = await runSeed(world, seed);
    if (result.violations.length > 0) broken.push({ seed, violations: result.violations });
    for (const [what, times] of result.counts) counts.set(what, (counts.get(what) ?? 0) + times);
  }
  return { broken, counts };
}

/** Of the first few seeds that fail, one that can be told in a few lines: which of them can is luck. */
async function shortestFailure<Plan>(world: World<Plan>): Promise<RunResult> {
  let shortest: RunResult | undefined;
  let failures = 0;
  for (let seed = 0; failures < FAILURES && seed < 1_000; seed += 1) {
    const plan = world.plan(seed);
    if ((await runPlan(world, plan)).violations.length === 0) continue;
    failures += 1;
    const failure = await runPlan(world, await shrink(world, plan, SHRINK_LIMIT_MS), { trace: true });
    if (failure.trace.length < (shortest?.trace.length ?? Number.POSITIVE_INFINITY)) shortest = failure;
    if (failure.trace.length < SHORT_TRACE) break;
  }
  if (!shortest) throw new Error('nothing was found');
  return shortest;
}
