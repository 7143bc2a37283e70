/**
 * A result from this process' own memory is returned directly, a result from a store as a promise. Awaiting the former would
 * only cost a request turns of the microtask queue: up to a sixth of the processor time of a 304 of a transaction or a list. Only what
 * cannot fail is returned directly, because callers handle faults of promises. Payments await everything, because there it made no
 * difference that could be measured.
 */
export type NowOrLater<T> = T | Promise<T>;
