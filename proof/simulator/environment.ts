import type { Faulty } from './fault-plan.js';

/** The result of one seed, or of one plan. */
export interface RunResult {
  /** One sentence for each broken promise. */
  readonly violations: readonly string[];
  readonly digest: number;
  readonly steps: number;
  readonly trace: readonly string[];
  /** What happened how often. */
  readonly counts: ReadonlyMap<string, number>;
}

/** A part of the service that is simulated, with everything that can go wrong around it. */
export interface Environment<Plan> {
  readonly name: string;
  plan(seed: number): Plan;
  run(plan: Plan, options?: { trace?: boolean }): Promise<RunResult>;
  /** Every list in a plan that may be shorter: for finding the shortest plan that still fails. */
  lists(plan: Plan): readonly ShorterList<Plan>[];
}

interface ShorterList<Plan> {
  readonly length: number;
  /** The plan without `count` items from `start`. */
  without(start: number, count: number): Plan;
}

/** The lists of a plan whose clients each have a list of their own, under the name `list`. */
export function listsOf<List extends string, Script extends Readonly<Record<List, readonly unknown[]>>>(
  list: List,
): <Plan extends Faulty & { readonly scripts: readonly Script[] }>(plan: Plan) => ShorterList<Plan>[] {
  return (plan) => {
    const { faults, scripts } = plan;
    const ofScripts = scripts.map((script, index) => ({
      length: script[list].length,
      without: (start: number, count: number) => {
        const shorter = { ...script, [list]: withoutRange(script[list], start, count) };
        return { ...plan, scripts: scripts.with(index, shorter) };
      },
    }));
    return [
      { length: faults.length, without: (...range) => ({ ...plan, faults: withoutRange(faults, ...range) }) },
      { length: scripts.length, without: (...range) => ({ ...plan, scripts: withoutRange(scripts, ...range) }) },
      ...ofScripts,
    ];
  };
}

function withoutRange<Item>(items: readonly Item[], start: number, count: number): Item[] {
  return items.filter((_, index) => index < start || index >= start + count);
}
