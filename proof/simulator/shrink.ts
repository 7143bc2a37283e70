import type { Environment } from './environment.js';
import type { Faulty } from './fault-plan.js';
import { runPlan } from './seeds.js';

type Tree = Readonly<Record<string, unknown>>;

/**
 * The shortest plan found in `limitMs` that still breaks a promise: items of its lists are left out, half of a list at a
 * time, then a quarter, then one by one, for as long as that makes it shorter.
 */
export async function shrink(environment: Environment, failing: Faulty, limitMs: number): Promise<Faulty> {
  const endsAt = performance.now() + limitMs;
  const isOver = () => performance.now() > endsAt;
  let plan = failing;
  let shorter = true;
  while (shorter && !isOver()) {
    shorter = false;
    for (let list = 0; list < listsOf(plan).length; list += 1) {
      const length = () => listsOf(plan)[list]?.length ?? 0;
      for (let count = length(); count >= 1; count = count === 1 ? 0 : Math.ceil(count / 2)) {
        for (let start = length() - count; start >= 0 && !isOver(); start -= count) {
          const candidate = structuredClone(plan);
          listsOf(candidate)[list]?.splice(start, count);
          if ((await runPlan(environment, candidate)).violations.length === 0) continue;
          plan = candidate;
          shorter = true;
        }
      }
    }
  }
  return plan;
}

/** Every list in a plan, the faults first: each may be shorter. */
function listsOf({ faults, ...rest }: Faulty): unknown[][] {
  const inside = (value: unknown): unknown[][] => {
    if (typeof value !== 'object' || value === null) return [];
    const within = Object.values(value as Tree).flatMap(inside);
    return Array.isArray(value) ? [value, ...within] : within;
  };
  return [faults as unknown[], ...inside(rest)];
}
