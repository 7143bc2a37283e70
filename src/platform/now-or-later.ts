/**
 * A result from this process' own memory is returned directly, a result from a store as a promise. Awaiting the former would
 * only cost a request turns of the microtask queue.
 */
export type NowOrLater<T> = T | Promise<T>;
