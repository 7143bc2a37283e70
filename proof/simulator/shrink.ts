import type { Environment } from './environment.js';
import { runPlan } from './one-seed.js';

/**
 * The shortest plan found in `limitMs` that still breaks a promise: items of its lists are left out, half of a list at a
 * time, then a quarter, then one by one, for as long as that makes it shorter.
 */
export async function shrink<Plan>(environment: Environment<Plan>, failing: Plan, limitMs: number): Promise<Plan> {
  const endsAt = performance.now() + limitMs;
  const isOver = () => performance.now() > endsAt;
  const fails = async (plan: Plan) => (await runPlan(environment, plan)).violations.length > 0;

  let plan = failing;
  let shorter = true;
  while (shorter && !isOver()) {
    shorter = false;
    for (let list = 0; list < environment.lists(plan).length; list += 1) {
      for (let count = lengthOf(plan, list); count >= 1; count = count === 1 ? 0 : Math.ceil(count / 2)) {
        for (let start = lengthOf(plan, list) - count; start >= 0 && !isOver(); start -= count) {
          const candidate = environment.lists(plan)[list]?.without(start, count);
          if (candidate === undefined || !(await fails(candidate))) continue;
          plan = candidate;
          shorter = true;
        }
      }
    }
  }
  return plan;

  function lengthOf(of: Plan, list: number): number {
    return environment.lists(of)[list]?.length ?? 0;
  }
}
