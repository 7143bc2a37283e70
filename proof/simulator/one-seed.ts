import type { Environment, RunResult } from './environment.js';

/** So many seeds are run once for each that is run twice: a seed that has two histories cannot be asked for again. */
const TWICE_EVERY = 10;

export async function runSeed<Plan>(environment: Environment<Plan>, seed: number): Promise<RunResult> {
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

/** What nobody caught: by whichever thread a plan is run, it belongs to that plan. */
let uncaught: unknown[] | undefined;

/** A plan that cannot be run to its end is a violation too, and so is a rejection that nobody catches. */
export async function runPlan<Plan>(
  environment: Environment<Plan>,
  plan: Plan,
  options: { trace?: boolean } = {},
): Promise<RunResult> {
  const rejections = collected();
  const result = await runToItsEnd(environment, plan, options);
  // A turn of the event loop: what was rejected and not caught is known then.
  await new Promise(setImmediate);
  if (rejections.length === 0) return result;
  return { ...result, violations: [...result.violations, ...rejections.map((reason) => `not caught: ${reason}`)] };
}

async function runToItsEnd<Plan>(
  environment: Environment<Plan>,
  plan: Plan,
  options: { trace?: boolean },
): Promise<RunResult> {
  try {
    return await environment.run(plan, options);
  } catch (error) {
    const violations = [`it could not be run: ${error instanceof Error ? error.message : error}`];
    return { violations, digest: 0, steps: 0, trace: [], counts: new Map() };
  }
}

/** Plans are run one after the other: from here on, those of the next one. */
function collected(): readonly unknown[] {
  if (!uncaught) process.on('unhandledRejection', (reason) => uncaught?.push(reason));
  uncaught = [];
  return uncaught;
}
