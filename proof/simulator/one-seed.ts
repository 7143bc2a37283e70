import type { RunResult, World } from './world.js';

/** What a seed came to: run twice, because a seed that has two histories cannot be asked for again. */
export async function runSeed<Plan>(world: World<Plan>, seed: number): Promise<RunResult> {
  const plan = world.plan(seed);
  const first = await runPlan(world, plan);
  const second = await runPlan(world, plan);
  if (first.digest === second.digest && first.steps === second.steps) return first;
  return { ...first, violations: [...first.violations, 'two runs of this seed are two histories'] };
}

/** A plan that cannot be run to its end is a violation too. */
export async function runPlan<Plan>(
  world: World<Plan>,
  plan: Plan,
  options: { trace?: boolean } = {},
): Promise<RunResult> {
  try {
    return await world.run(plan, options);
  } catch (error) {
    const violations = [`it could not be run: ${error instanceof Error ? error.message : error}`];
    return { violations, digest: 0, steps: 0, trace: [], counts: new Map() };
  }
}
