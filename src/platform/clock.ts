/** Time as an argument, so that a test can own it. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may jump when the machine's clock is set. */
  now(): number;
  /** Milliseconds since an arbitrary moment; never jumps, never runs backwards. */
  monotonic(): number;
  /** Calls back once, `ms` from now, unless the function it returns was called before. Keeps no process alive. */
  after(ms: number, callBack: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callBack) {
    const timer = setTimeout(callBack, ms).unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves `ms` from now, or as soon as the signal is aborted. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const endEarly = () => {
      cancel();
      resolve();
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', endEarly);
      resolve();
    });
    signal?.addEventListener('abort', endEarly, { once: true });
  });
}
