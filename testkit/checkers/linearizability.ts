/** What a healthy history needs is a few for each operation; more means that nobody can say in time. */
const MOST_TRIED = 100_000;

/** One operation of a concurrent history. */
export interface Operation<Input, Output> {
  readonly invokedAt: number;
  /** Undefined: its outcome is not known. It may have happened at any time after its invocation, or never. */
  readonly completed: { readonly at: number; readonly output: Output } | undefined;
  readonly input: Input;
}

/** What the operations would do one after another. */
export interface Model<State, Input, Output> {
  readonly initial: State;
  /** The state after the operation; undefined when it could not have answered so. Of an unknown outcome any will do. */
  step(state: State, input: Input, output: Output | undefined): State | undefined;
  /**
   * The same text for the same state. What leaves it as it is comes first in the search, so where a write may set what is
   * there already, and could as well have come after another one, the state must count writes.
   */
  name(state: State): string;
  /** Whether nothing can answer so any more once the state was reached: it spares trying what must fail. */
  isPast?(state: State, output: Output): boolean;
}

/** Undefined: the operations have an order. A search that had to be given up has not shown that. */
export function whyNoOrder<State, Input, Output>(
  operations: readonly Operation<Input, Output>[],
  model: Model<State, Input, Output>,
): string | undefined {
  try {
    return isLinearizable(operations, model) ? undefined : 'they have no order';
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Whether the operations can be put into one order that a single copy could have had: each at one moment between its
 * invocation and its answer (Wing and Gong 1993, with Lowe's memory of what was tried before). Meant for the histories of
 * one key: the effort grows with how many writes overlap, and with how many have an unknown outcome.
 */
export function isLinearizable<State, Input, Output>(
  operations: readonly Operation<Input, Output>[],
  model: Model<State, Input, Output>,
): boolean {
  const sorted = operations.toSorted((a, b) => a.invokedAt - b.invokedAt);
  const answered = sorted.filter(({ completed }) => completed);
  const unanswered = sorted.filter(({ completed }) => !completed);
  const ends = answered.map(({ completed }) => completed?.at ?? Number.POSITIVE_INFINITY);
  const done = new Uint8Array(answered.length);
  const happened = new Uint8Array(unanswered.length);
  const tried = new Set<string>();

  /** What began after the end of one that is left came after that one. */
  function latestNext(start: number): number {
    let earliestEnd = Number.POSITIVE_INFINITY;
    for (let index = start; index < answered.length && invokedAt(answered, index) <= earliestEnd; index += 1) {
      if (done[index] === 0) earliestEnd = Math.min(earliestEnd, ends[index] as number);
    }
    return earliestEnd;
  }

  /** Puts next whatever leaves the state as it is and fits: no order is lost by that. Returns what was put. */
  function putReads(state: State, from: number): number[] {
    const put: number[] = [];
    const name = model.name(state);
    let latest = latestNext(from);
    for (let index = from; index < answered.length && invokedAt(answered, index) <= latest; index += 1) {
      if (done[index] === 1) continue;
      const next = stepOf(answered, index, state);
      if (next === undefined || model.name(next) !== name) continue;
      done[index] = 1;
      put.push(index);
      if (ends[index] === latest) latest = latestNext(from);
    }
    return put;
  }

  function stepOf(from: readonly Operation<Input, Output>[], index: number, state: State): State | undefined {
    const { input, completed } = from[index] as Operation<Input, Output>;
    return model.step(state, input, completed?.output);
  }

  function isPast(index: number, state: State): boolean {
    const { completed } = answered[index] as Operation<Input, Output>;
    return completed !== undefined && model.isPast?.(state, completed.output) === true;
  }

  /** `from`: all answered ones before it are done. */
  function canEnd(state: State, from: number): boolean {
    const put = putReads(state, from);
    let start = from;
    while (done[start] === 1) start += 1;
    if (start === answered.length || canGoOn(state, start)) return true;
    for (const index of put) done[index] = 0;
    return false;
  }

  function canGoOn(state: State, start: number): boolean {
    const latest = latestNext(start);
    let end = start;
    while (end < answered.length && invokedAt(answered, end) <= latest) end += 1;
    for (let index = start; index < end; index += 1) if (done[index] === 0 && isPast(index, state)) return false;
    const before = model.name(state);
    const name = `${before} ${start} ${done.subarray(start, end).join('')} ${happened.join('')}`;
    if (tried.has(name)) return false;
    tried.add(name);
    if (tried.size > MOST_TRIED) throw new Error('too many operations overlap to be put into an order');

    for (let index = start; index < end; index += 1) {
      if (done[index] === 1) continue;
      const next = stepOf(answered, index, state);
      if (next === undefined) continue;
      done[index] = 1;
      if (canEnd(next, start)) return true;
      done[index] = 0;
    }
    // Whatever is not known to have happened is tried last, and only where it changes something.
    for (let index = 0; index < unanswered.length && invokedAt(unanswered, index) <= latest; index += 1) {
      if (happened[index] === 1) continue;
      const next = stepOf(unanswered, index, state);
      if (next === undefined || model.name(next) === before) continue;
      happened[index] = 1;
      if (canEnd(next, start)) return true;
      happened[index] = 0;
    }
    return false;
  }

  return canEnd(model.initial, 0);
}

function invokedAt(operations: readonly { readonly invokedAt: number }[], index: number): number {
  return operations[index]?.invokedAt ?? Number.POSITIVE_INFINITY;
}
