/** One operation of a concurrent history. */
export interface Operation<Input, Output> {
  readonly invokedAt: number;
  /** Undefined: its outcome was never told. It may have happened at any time after its invocation, or never. */
  readonly completed: { readonly at: number; readonly output: Output } | undefined;
  readonly input: Input;
}

/** What the operations would do one after another. */
export interface Model<State, Input, Output> {
  readonly initial: State;
  /** The state after the operation; undefined when it could not have answered so. Of an unknown outcome any will do. */
  step(state: State, input: Input, output: Output | undefined): State | undefined;
  /** The same text for the same state. */
  name(state: State): string;
}

/**
 * Whether the operations can be put into one order that a single copy could have had: each at one moment between its
 * invocation and its answer (Wing and Gong 1993, with Lowe's memory of what was tried before). Meant for the short
 * histories of one key: the effort grows with how many operations overlap.
 */
export function isLinearizable<State, Input, Output>(
  operations: readonly Operation<Input, Output>[],
  model: Model<State, Input, Output>,
): boolean {
  const sorted = operations.toSorted((a, b) => a.invokedAt - b.invokedAt);
  const ends = sorted.map(({ completed }) => completed?.at ?? Number.POSITIVE_INFINITY);
  const tried = new Set<string>();
  const done = new Uint8Array(sorted.length);

  /** `first`: nothing before it is left, except what may never have happened. */
  function canEnd(state: State, first: number): boolean {
    let start = first;
    while (start < sorted.length && done[start] === 1) start += 1;
    let earliestEnd = Number.POSITIVE_INFINITY;
    let left = false;
    for (let index = start; index < sorted.length; index += 1) {
      if (done[index] === 1 || !sorted[index]?.completed) continue;
      left = true;
      earliestEnd = Math.min(earliestEnd, ends[index] as number);
    }
    if (!left) return true;

    const name = `${model.name(state)} ${start} ${done.subarray(start).join('')}`;
    if (tried.has(name)) return false;
    tried.add(name);

    for (let index = start; index < sorted.length; index += 1) {
      if (done[index] === 1) continue;
      const operation = sorted[index] as Operation<Input, Output>;
      // Something else ended before this one began, and so came before it.
      if (operation.invokedAt > earliestEnd) break;
      const next = model.step(state, operation.input, operation.completed?.output);
      if (next === undefined) continue;
      // What changes nothing and is not known to have happened is as good as left out.
      if (!operation.completed && model.name(next) === model.name(state)) continue;
      done[index] = 1;
      if (canEnd(next, start)) return true;
      done[index] = 0;
    }
    return false;
  }

  return canEnd(model.initial, 0);
}
