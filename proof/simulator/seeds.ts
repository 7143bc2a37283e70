import type { Environment, RunResult } from './environment.js';
import type { Faulty } from './faults.js';

/** One seed in this many is run twice, to find seeds that do not always give the same history. */
const TWICE_EVERY = 10;

/** Unhandled rejections. Plans run one after the other, so they belong to the plan that runs. */
let uncaught: unknown[] = [];
process.on('unhandledRejection', (reason) => uncaught.push(reason));

export async function runSeed(environment: Environment, seed: number): Promise<RunResult> {
  const plan = environment.plan(seed);
  const first = await runPlan(environment, plan);
  if (seed % TWICE_EVERY !== 0) return first;
  const second = await runPlan(environment, plan);
  // A rejection that nobody catches may come late, in the run after the one that it belongs to.
  const violations = [...new Set([...first.violations, ...second.violations])];
  if (first.digest !== second.digest || first.steps !== second.steps) {
    violations.push('two runs of this seed are two histories');
  }
  return { ...first, violations };
}

/** A plan that cannot be run to its end is a violation too, and so is a rejection that nobody catches. */
export async function runPlan(environment: Environment, plan: Faulty, trace = false): Promise<RunResult> {
  uncaught = [];
  const result = await environment.run(plan, trace).catch((error: unknown) => {
    const violations = [`it could not be run: ${error instanceof Error ? error.message : error}`];
    return { violations, digest: 0, steps: 0, trace: [], counts: new Map<string, number>() };
  });
  // A turn of the event loop: what was rejected and not caught is known then.
  await new Promise(setImmediate);
  return { ...result, violations: [...result.violations, ...uncaught.map((reason) => `not caught: ${reason}`)] };
}

/**
 * The shortest plan found in `mostRuns` that still breaks a promise. Items of its lists are left out, half of a list at a time, then a
 * quarter, then one by one, while that makes it shorter.
 */
export async function shrink(environment: Environment, failing: Faulty, mostRuns: number): Promise<Faulty> {
  let runs = 0;
  const isOver = () => runs >= mostRuns;
  const fails = async (candidate: Faulty) => {
    runs += 1;
    return (await runPlan(environment, candidate)).violations.length > 0;
  };
  let plan = failing;
  let before: Faulty | undefined;
  while (plan !== before && !isOver()) {
    before = plan;
    for (let list = 0; list < listsOf(plan).length; list += 1) plan = await shrinkList(plan, list, fails, isOver);
  }
  return plan;
}

async function shrinkList(
  failing: Faulty,
  list: number,
  fails: (candidate: Faulty) => Promise<boolean>,
  isOver: () => boolean,
) {
  let plan = failing;
  const length = () => listsOf(plan)[list]?.length ?? 0;
  for (let count = length(); count >= 1; count = count === 1 ? 0 : Math.ceil(count / 2)) {
    for (let start = length() - count; start >= 0 && !isOver(); start -= count) {
      const candidate = structuredClone(plan);
      listsOf(candidate)[list]?.splice(start, count);
      if (await fails(candidate)) plan = candidate;
    }
  }
  return plan;
}

/** Every list in a plan, the faults first: each may be shorter. */
function listsOf({ faults, ...rest }: Faulty): unknown[][] {
  const inside = (value: unknown): unknown[][] => {
    if (typeof value !== 'object' || value === null) return [];
    const within = Object.values(value).flatMap(inside);
    return Array.isArray(value) ? [value, ...within] : within;
  };
  return [faults as unknown[], ...inside(rest)];
}
