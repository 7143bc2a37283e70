const realSetImmediate = globalThis.setImmediate;
let pending = 0;

/**
 * The real code may wait for a turn of the event loop itself, where no time passes. From the first call on all such turns are
 * counted, so that time goes on when the last has been had, and not before.
 */
export function countImmediates(): void {
  if (globalThis.setImmediate !== realSetImmediate) return;
  globalThis.setImmediate = Object.assign(
    (callBack: (...given: unknown[]) => void, ...given: unknown[]) => {
      pending += 1;
      return realSetImmediate(() => {
        pending -= 1;
        callBack(...given);
      });
    },
    { __promisify__: realSetImmediate.__promisify__ },
  ) as typeof setImmediate;
}

/** Calls `goOn` when nothing waits for a microtask, a tick or a turn any more. */
export function afterAllTurns(goOn: () => void): void {
  // From a microtask, a tick comes when no microtask is left: whatever was set going has run until it waits.
  queueMicrotask(() =>
    process.nextTick(() => {
      if (pending === 0) goOn();
      else realSetImmediate(() => afterAllTurns(goOn));
    }),
  );
}
