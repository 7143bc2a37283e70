import type { Clock } from '../clock.js';

export interface CallOptions {
  /** Ends the call early. A request that was sent already may still take effect, and the error says so. */
  readonly signal?: AbortSignal | undefined;
  /** For the whole call with all its attempts, in milliseconds. */
  readonly deadlineMs?: number | undefined;
}

/** One call of the caller, with all its attempts. */
export interface Call {
  /** Aborted by the caller, or when the deadline passes. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** True if the caller aborted it; false when the deadline ended it. */
  wasAborted(): boolean;
}

/** Runs the work under one deadline. The work itself must stop when the signal is aborted. */
export async function within<T>(
  clock: Clock,
  { signal, deadlineMs }: { signal?: AbortSignal | undefined; deadlineMs: number },
  work: (call: Call) => Promise<T>,
): Promise<T> {
  const endsAt = clock.now() + deadlineMs;
  const ended = new AbortController();
  const finished = new AbortController();
  const abort = () => ended.abort(signal?.reason);
  const forget = onAbort(signal, abort);
  void clock.sleep(deadlineMs, finished.signal).then(() => {
    if (!finished.signal.aborted) ended.abort(new DOMException('The deadline passed.', 'TimeoutError'));
  });
  try {
    return await work({
      signal: ended.signal,
      remainingMs: () => endsAt - clock.now(),
      wasAborted: () => signal?.aborted ?? false,
    });
  } finally {
    finished.abort();
    forget();
  }
}

/** The promise, or as soon as the signal is aborted a rejection with its reason. */
export function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(forget);
  });
}

/**
 * Calls the listener when the signal is aborted, at once if it is; returns a function that forgets it. All listeners of a signal are behind
 * one, because a caller may share a signal among all its calls, and Node.js warns of a leak at more than ten listeners.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {};
  if (signal.aborted) {
    listener();
    return () => {};
  }
  const known = waiting.get(signal) ?? waitFor(signal);
  known.listeners.add(listener);
  return () => {
    if (!known.listeners.delete(listener) || known.listeners.size > 0) return;
    signal.removeEventListener('abort', known.tellAll);
    waiting.delete(signal);
  };
}

interface SharedAbort {
  readonly listeners: Set<() => void>;
  readonly tellAll: () => void;
}

const waiting = new WeakMap<AbortSignal, SharedAbort>();

function waitFor(signal: AbortSignal): SharedAbort {
  const listeners = new Set<() => void>();
  const tellAll = () => {
    for (const listener of [...listeners]) listener();
  };
  const known = { listeners, tellAll };
  signal.addEventListener('abort', known.tellAll);
  waiting.set(signal, known);
  return known;
}
