/** What one seed, or one plan, came to. */
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
export interface World<Plan> {
  readonly name: string;
  plan(seed: number): Plan;
  run(plan: Plan, options?: { trace?: boolean }): Promise<RunResult>;
  /** Every list in a plan that may be shorter: for finding the shortest plan that still fails. */
  lists(plan: Plan): readonly ShorterList<Plan>[];
}

export interface ShorterList<Plan> {
  readonly length: number;
  /** The plan without `count` items from `start`. */
  without(start: number, count: number): Plan;
}

export function withoutRange<Item>(items: readonly Item[], start: number, count: number): Item[] {
  return items.filter((_, index) => index < start || index >= start + count);
}
