import type { Clock } from '../clock.js';

export interface CallOptions {
  /** Ends the call early. What was sent already may still happen, and the error says so. */
  readonly signal?: AbortSignal | undefined;
  /** For the whole call with all its attempts, in milliseconds. */
  readonly deadlineMs?: number | undefined;
}

/** One call of the caller, with all its attempts. */
export interface Call {
  /** Aborted by the caller, or when the deadline passes. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** Whether the caller aborted it; false when the deadline ended it. */
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
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort);
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
    signal?.removeEventListener('abort', abort);
  }
}

/** The promise, or as soon as the signal is aborted a rejection with its reason. */
export function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
