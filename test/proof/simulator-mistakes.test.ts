import { describe, expect, test, vi } from 'vitest';
import { ENVIRONMENTS, type Environment, type RunResult } from '../../proof/simulator/environment.js';
import type { Tables, Values } from '../../proof/simulator/models/postgres-server.js';
import { runPlan, runSeed, shrink } from '../../proof/simulator/seeds.js';
import type { Stores } from '../../proof/simulator/stores.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

const FAILURES = 5;
const MOST_SHRINK_RUNS = 1_000;
/** The shortest history that shows a planted mistake has fewer lines than this: a screen and a half. */
const SHORT_TRACE = 120;

vi.setConfig({ testTimeout: WITHOUT_LIMIT.timeout });

describe('the simulator', () => {
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
