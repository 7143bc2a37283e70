/**
 * What a store answers from this process' own memory is there at once, and what it has to ask for comes later. To wait for
 * the former would cost a request turns of the microtask queue for nothing.
 */
export type NowOrLater<T> = T | Promise<T>;
