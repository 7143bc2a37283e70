import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { ENVIRONMENTS, type Environment, type RunResult } from '../../proof/simulator/environment.js';
import type { Tables, Values } from '../../proof/simulator/models/postgres-server.js';
import { runPlan, runSeed, shrink } from '../../proof/simulator/seeds.js';
import type { Stores } from '../../proof/simulator/stores.js';
import { seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** From 0, for regression; with SIMULATOR_SEEDS this number of fresh ones, whose first is printed. */
const SEEDS = Number(process.env.SIMULATOR_SEEDS ?? 40);
const FIRST = process.env.SIMULATOR_SEEDS === undefined ? 0 : seedFrom('SIMULATOR_FROM');
const FAILURES = 5;
const MOST_SHRINK_RUNS = 1_000;
/** The shortest history that shows a planted mistake has fewer lines than this: a screen and a half. */
const SHORT_TRACE = 120;

vi.setConfig({ testTimeout: WITHOUT_LIMIT.timeout });

const PAYMENT_COUNTS = [
  'takeovers',
  'crashes',
  'losses',
  'pauses',
  'drains',
  'group commits',
  'payments removed',
  'cancelled',
  'charges sent again',
];
/** After rows were lost: too seldom for the bound of the others, and certain in the first seeds. */
const LOSS_COUNTS = [
  'payments lost',
  'another amount had been charged',
  'missing attempts inserted',
  'answers: superseded at processor',
  'cancellations: charged before',
  'answers: too soon',
  'refunds: no payment',
];
const REFERENCES = 'payments of references, attempt ';
const TRANSACTION_COUNTS = ['hits', 'misses', 'crashes', 'losses', 'drains', 'answers: set', 'answers: list'];

describe('the simulator', () => {
  test.each([
    [
      'payments keep every promise',
      ENVIRONMENTS.payments(),
      SEEDS,
      [...PAYMENT_COUNTS, 'restores', `${REFERENCES}1`, `${REFERENCES}2`],
      LOSS_COUNTS,
    ],
    ['the cache is coherent', ENVIRONMENTS.transactions(), SEEDS / 2, TRANSACTION_COUNTS, []],
  ])('%s through its seeds', async (_what, environment, seeds, counted, once) => {
    const broken: { seed: number; violations: readonly string[] }[] = [];
    const counts = new Map<string, number>();
    for (let seed = FIRST; seed < FIRST + seeds; seed += 1) {
      const result = await runSeed(environment, seed);
      if (result.violations.length > 0) broken.push({ seed, violations: result.violations });
      for (const [what, times] of result.counts) counts.set(what, (counts.get(what) ?? 0) + times);
    }
    expect(broken).toEqual([]);
    for (const what of counted) expect(counts.get(what), what).toBeGreaterThan(seeds / 20);
    for (const what of once) expect(counts.get(what), what).toBeGreaterThan(0);
  });

  test.each(Object.entries(ENVIRONMENTS))('each seed of %s gives one history of its own', async (_name, create) => {
    const environment = create();
    const run = (seed: number, trace?: boolean) => runPlan(environment, environment.plan(seed), trace);
    const [first, again, other, traced] = [await run(1), await run(1), await run(2), await run(1, true)];
    expect(again.digest).toBe(first.digest);
    expect(other.digest).not.toBe(first.digest);
    expect(traced.digest).toBe(first.digest);
    expect(traced.trace.length).toBeGreaterThan(100);
  });

  test.each([
    [
      'a ledger that grants a claim twice',
      ENVIRONMENTS.payments(grantTwice),
      /charged|claimed again|was the first|another content/,
    ],
    [
      'a ledger that does not ask about the attempt before',
      ENVIRONMENTS.payments(grantTurns),
      /is paid by|was not declined/,
    ],
    [
      'a ledger that forgets the source of a payment that is taken over',
      ENVIRONMENTS.payments(forgetSources),
      /was sent with another content/,
    ],
    ['a cache in which no write mark stands', ENVIRONMENTS.transactions(loseMarks), /was read|have no order/],
  ])('finds %s, and shows it in a few lines', async (_what, environment, violation) => {
    const { trace, violations } = await shortestFailure(environment);
    expect(violations.join()).toMatch(violation);
    expect(trace.length).toBeLessThan(SHORT_TRACE);
  });
});

/** Only one plan in three has charges that wait for their payers, and one in twelve loses rows as well. */
const WAITING_SEEDS = Array.from({ length: 60 }, (_, index) => 3 * index + 2);
const LOSING_SEEDS = Array.from({ length: 60 }, (_, index) => 12 * index + 11);

describe('the simulator with charges that wait', () => {
  test.each([
    ['a ledger that forgets that a payment is pending', forgetPending, WAITING_SEEDS, /was sent after it was pending/],
    [
      'a ledger that does not ask about the attempt before',
      grantTurns,
      WAITING_SEEDS,
      /was begun while the attempt before it could be charged/,
    ],
    [
      'a ledger that does not say that a refund may be lost',
      hideLostRefunds,
      LOSING_SEEDS,
      /^refund .* was sent again without a look-up/,
    ],
    [
      'a ledger that closes a lost payment without a look-up',
      closeUnasked,
      LOSING_SEEDS,
      /was told to be cancelled, and was charged/,
    ],
  ] as const)('finds %s', async (_what, sabotage, seeds, violation) => {
    const environment = ENVIRONMENTS.payments(sabotage);
    const found: string[] = [];
    for (const seed of seeds) {
      found.push(...(await runSeed(environment, seed)).violations);
      if (found.some((text) => violation.test(text))) return;
    }
    expect.fail(`no history of ${seeds.length} shows it, and these are shown: ${[...new Set(found)].join(', ')}`);
  });
});

function hideLostRefunds({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  postgres.execute = (statement, ...rest) => {
    if (statement.name !== 'claim_refund') return execute(statement, ...rest);
    const { loss } = postgres.tables;
    postgres.tables.loss = { ...loss, lookUpReferencesUntilMs: 0 };
    const result = execute(statement, ...rest);
    postgres.tables.loss = loss;
    return result;
  };
}

function closeUnasked({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  // The parameter says if the processor was asked.
  postgres.execute = (statement, values, ...rest) =>
    execute(statement, statement.name === 'cancel' ? values.with(11, true) : values, ...rest);
}

/** Only one plan in three has webhooks. */
const TOLD_SEEDS = Array.from({ length: 10 }, (_, index) => 3 * index + 1);

describe('the simulator with webhooks', () => {
  test.each([
    [
      'a position that passes what was not taken',
      wrongAt('advance_endpoint', (values) => values.with(3, Number(values[3]) + 2_000_000)),
      /is settled, and e\d was never told/,
    ],
    [
      'a lease that two processes have',
      wrongAt('take_endpoint', (values, { endpoints }) => {
        const row = endpoints.get(String(values[0]));
        if (row) endpoints.set(row.name, { ...row, owner: null });
        return values;
      }),
      /was sent to e\d by \S+ while \S+ had the lease/,
    ],
    [
      'a feed that shows the settlements of every client',
      wrongAt('settlements_all', (values) => values.with(3, null)),
      /of another client/,
    ],
  ])('finds %s', async (_what, sabotage, violation) => {
    const environment = ENVIRONMENTS.payments(sabotage);
    for (const seed of TOLD_SEEDS) {
      const { violations } = await runSeed(environment, seed);
      if (violations.some((text) => violation.test(text))) return;
    }
    expect.fail(`no history of ${TOLD_SEEDS.length} shows it`);
  });
});

/** Changes the values of a statement, or the tables, before the server runs it. */
function wrongAt(name: string, change: (values: Values, tables: Tables) => Values) {
  return ({ postgres }: Stores): void => {
    if (!postgres) return;
    const [execute, read] = [postgres.execute.bind(postgres), postgres.read.bind(postgres)];
    const changed = (asked: string, values: Values) => (asked === name ? change(values, postgres.tables) : values);
    postgres.execute = (statement, values, ...rest) => execute(statement, changed(statement.name, values), ...rest);
    postgres.read = (statement, values, ...rest) => read(statement, changed(statement.name, values), ...rest);
  };
}

function forgetPending({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  postgres.execute = (statement, ...rest) => {
    const { payments } = postgres.tables;
    if (statement.name.startsWith('take_over'))
      for (const [key, row] of payments)
        if (row.state === 'PROCESSING') payments.set(key, { ...row, pending_until: null });
    return execute(statement, ...rest);
  };
}

function grantTwice({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  postgres.execute = (statement, values, ...rest) => {
    if (statement.name.startsWith('claim'))
      for (const key of values[0] as string[]) postgres.tables.payments.delete(key);
    return execute(statement, values, ...rest);
  };
}

function forgetSources({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  postgres.execute = (statement, ...rest) => {
    const { payments } = postgres.tables;
    if (statement.name === 'take_over') for (const [key, row] of payments) payments.set(key, { ...row, source: null });
    return execute(statement, ...rest);
  };
}

function grantTurns({ postgres }: Stores): void {
  if (!postgres) return;
  const execute = postgres.execute.bind(postgres);
  postgres.execute = (statement, values, ...rest) => {
    const isAsked = statement.name === 'claim_in_full';
    // The keys of the attempts before.
    return execute(
      statement,
      isAsked
        ? values.with(
            16,
            [values[16]].flat().map(() => null),
          )
        : values,
      ...rest,
    );
  };
}

function loseMarks({ redis }: Stores): void {
  if (!redis) return;
  const evalsha = redis.evalsha.bind(redis);
  redis.evalsha = (...given) => {
    const reply = evalsha(...given);
    redis.forget((key) => key.endsWith(':marks'));
    return reply;
  };
}

/** The failure with the shortest history among the first few seeds that fail. */
async function shortestFailure(environment: Environment): Promise<RunResult> {
  const failures: RunResult[] = [];
  for (let seed = 0; failures.length < FAILURES && seed < 1_000; seed += 1) {
    const plan = environment.plan(seed);
    if ((await runPlan(environment, plan)).violations.length === 0) continue;
    failures.push(await runPlan(environment, await shrink(environment, plan, MOST_SHRINK_RUNS), true));
    if (failures.some(({ trace }) => trace.length < SHORT_TRACE)) break;
  }
  const [shortest] = failures.sort((one, other) => one.trace.length - other.trace.length);
  if (!shortest) throw new Error('no seed failed');
  return shortest;
}

/**
 * Bug: a write told the cache its version under a mark that a failover had brought back. The version was stored, and hit for the life of an
 * entry, though another write had been acknowledged meanwhile. Cause: a mark counted under any master. A replica that had not heard of the
 * last writes still held the mark of a write whose process was late, and knew nothing of the one between. Fix: marks carry the replication
 * id of the master they were put under, as entries and tokens do. Found: transactions, seed 470 at that time; below is the shortest plan
 * that showed it.
 */
test('a write mark that a failover brings back does not count in the history that showed it', async () => {
  const { violations, trace } = await runKept('transactions', 'late-write-mark');
  expect(violations).toEqual([]);
  const steps = trace.flatMap((line) => /cache-lift(?= 1\d+$)|takes the place/.exec(line)?.[0] ?? []);
  // The late one comes after the failover.
  expect(steps.slice(-3)).toEqual(['cache-lift', 'takes the place', 'cache-lift']);
});

/** Bug, cause and fix: `test/adapters/lost-attempts`. Redis was flushed as well, so that no record said that attempt 1 had been declined. */
test('an order whose next attempt is on its way when rows are lost is paid once', async () => {
  const { violations, trace } = await runKept('payments', 'next-attempt-on-its-way');
  expect(violations).toEqual([]);
  const steps = trace.flatMap((line) => /set back|k3 hears: too soon|CHARGE k3\S* succeeded/.exec(line)?.[0] ?? []);
  expect(steps.slice(0, 3)).toEqual(['set back', 'k3 hears: too soon', 'CHARGE k3.2 succeeded']);
});

/** Mistakes of the checker, not of the service: kept so that they do not come back. */
describe('the checker of payments', () => {
  test.each<[what: string, plan: string, steps: RegExp, order: string[]]>([
    /** Found: seed 1013064; the plan is seed 880 of today. It forgave what was charged between the operator's look and its verdict, not what was sent then. */
    [
      'accepts a charge that is on the network when an operator gives an old verdict',
      'operator-verdict-overtaken',
      /i\d\S+ resolve(?= k44$)|CHARGE k44 succeeded/,
      [expect.stringContaining('resolve'), 'CHARGE k44 succeeded'],
    ],
    /** Found: seed 15796. Nothing protects from a verdict that comes too early by the database's own clock. */
    [
      "accepts a verdict after the database's clock was set ahead, while the owner relies on its lease",
      'clock-set-ahead',
      /"of":"postgres","aheadMs"|the operator hears: resolved|CHARGE k52 succeeded/,
      ['"of":"postgres","aheadMs"', 'the operator hears: resolved', 'CHARGE k52 succeeded'],
    ],
  ])('%s', async (_what, plan, steps, order) => {
    const { violations, trace } = await runKept('payments', plan);
    expect(violations).toEqual([]);
    const seen = trace.flatMap((line) => steps.exec(line)?.[0] ?? []);
    expect(seen, 'the steps that the checker misjudged still happen').toEqual(order);
  });
});

/** Runs the shortest plan that showed it. */
function runKept(environment: keyof typeof ENVIRONMENTS, name: string): Promise<RunResult> {
  const text = readFileSync(new URL(`./plans/${name}.json`, import.meta.url), 'utf8');
  return ENVIRONMENTS[environment]().run(JSON.parse(text), true);
}
