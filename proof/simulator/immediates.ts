const real = { setImmediate: globalThis.setImmediate, clearImmediate: globalThis.clearImmediate };
const outstanding = new Set<NodeJS.Immediate>();

/**
 * The real code may wait for a turn of the event loop itself, where no time passes. From the first call on all such turns are
 * known, so that time goes on when the last has been had, and not before.
 */
export function watchImmediates(): void {
  if (globalThis.setImmediate !== real.setImmediate) return;
  const watched = (callBack: (...given: unknown[]) => void, ...given: unknown[]) => {
    const immediate = real.setImmediate(() => {
      outstanding.delete(immediate);
      callBack(...given);
    });
    outstanding.add(immediate);
    return immediate;
  };
  globalThis.setImmediate = Object.assign(watched, {
    __promisify__: real.setImmediate.__promisify__,
  }) as typeof setImmediate;
  globalThis.clearImmediate = (immediate) => {
    if (immediate) outstanding.delete(immediate);
    real.clearImmediate(immediate);
  };
}

/** Calls `goOn` when nothing waits for a microtask, a tick or a turn any more. */
export function afterAllTurns(goOn: () => void): void {
  // From a microtask, a tick comes when no microtask is left: whatever was set going has run until it waits.
  queueMicrotask(() =>
    process.nextTick(() => {
      if (outstanding.size === 0) goOn();
      else real.setImmediate(() => afterAllTurns(goOn));
    }),
  );
}
