import type { Violation } from '../history/history.js';

/** A correct history needs a few tries for each operation; with more than this the search is given up. */
const MOST_TRIED = 100_000;

export interface Operation<Input, Output> {
  readonly invokedAt: number;
  /** When it ended, and with what output. If undefined, it may have happened at any time after its invocation, or never. */
  readonly completed: { readonly at: number; readonly output: Output } | undefined;
  readonly input: Input;
}

export interface Model<State, Input, Output> {
  readonly initial: State;
  /** The state after the operation; undefined if it could not have had this output. An undefined output allows any. */
  step(state: State, input: Input, output: Output | undefined): State | undefined;
  /**
   * The same text for the same state. Operations that keep the state come first in the search. So if a write may set the present value
   * again, and may also come after another write, the state must count writes.
   */
  name(state: State): string;
  /** True if this output is impossible from this state on, so that the search can stop early. */
  isPast?(state: State, output: Output): boolean;
}

/** A violation when the operations have no valid order, or when the search was given up without finding one. */
export function checkOrder<State, Input, Output>(
  rule: string,
  subject: string,
  operations: readonly Operation<Input, Output>[],
  model: Model<State, Input, Output>,
): Violation[] {
  let why = 'they have no order';
  try {
    if (isLinearizable(operations, model)) return [];
  } catch (error) {
    why = (error as Error).message;
  }
  const history = operations.toSorted((one, other) => one.invokedAt - other.invokedAt);
  return [{ rule, subject, what: `${operations.length} accesses: ${why}`, history }];
}

/**
 * True if the operations can be put into one order that a single copy could have had: each at one moment between its invocation and its
 * answer. The search is Wing and Gong's (1993), with Lowe's memory of earlier tries. Meant for the histories of one key: the effort grows
 * with how many writes overlap, and with how many have an unknown outcome.
 */
export function isLinearizable<State, Input, Output>(
  operations: readonly Operation<Input, Output>[],
  model: Model<State, Input, Output>,
): boolean {
  type Operations = readonly Operation<Input, Output>[];
  const sorted = operations.toSorted((one, other) => one.invokedAt - other.invokedAt);
  const numbers = new Map(sorted.map((operation, index) => [operation, index]));
  const namesOf = (some: Operations) => some.map((operation) => numbers.get(operation)).join();
  const tried = new Set<string>();

  function after(state: State, { input, completed }: Operation<Input, Output>): State | undefined {
    return model.step(state, input, completed?.output);
  }

  /** Takes out all operations that can come next and keep the state, which excludes no order. Returns the rest. */
  function withoutReads(state: State, left: Operations): Operations {
    const name = model.name(state);
    const latest = latestNext(left);
    const rest = left.filter((operation) => {
      const next = operation.invokedAt <= latest ? after(state, operation) : undefined;
      return next === undefined || model.name(next) !== name;
    });
    return rest.length === left.length ? left : withoutReads(state, rest);
  }

  /** `open`: operations of unknown outcome that may happen yet. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: Wing and Gong's search in one piece, to be read next to their paper.
  function canEnd(state: State, answered: Operations, open: Operations): boolean {
    const left = withoutReads(state, answered);
    if (left.length === 0) return true;
    const latest = latestNext(left);
    const next = left.filter(({ invokedAt }) => invokedAt <= latest);
    if (next.some(({ completed }) => completed && model.isPast?.(state, completed.output))) return false;
    const name = model.name(state);
    const situation = `${name} ${namesOf(next)} ${namesOf(open)}`;
    if (tried.has(situation)) return false;
    tried.add(situation);
    if (tried.size > MOST_TRIED) throw new Error('too many operations overlap to be put into an order');

    for (const operation of next) {
      const reached = after(state, operation);
      if (reached !== undefined && canEnd(reached, without(left, operation), open)) return true;
    }
    // Operations of unknown outcome are tried last, and only if they change the state.
    for (const operation of open.filter(({ invokedAt }) => invokedAt <= latest)) {
      const changed = after(state, operation);
      if (changed === undefined || model.name(changed) === name) continue;
      if (canEnd(changed, left, without(open, operation))) return true;
    }
    return false;
  }

  const [answered, open] = [sorted.filter(({ completed }) => completed), sorted.filter(({ completed }) => !completed)];
  return canEnd(model.initial, answered, open);
}

/** An operation invoked after this time cannot be next, because another one that is left had ended before. */
function latestNext(left: readonly Operation<unknown, unknown>[]): number {
  return Math.min(...left.map(({ completed }) => completed?.at ?? Number.POSITIVE_INFINITY));
}

function without<T>(items: readonly T[], item: T): readonly T[] {
  return items.filter((each) => each !== item);
}
