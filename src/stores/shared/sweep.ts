/** Removed in one commit: a few milliseconds of the store's time. */
const SWEEP_BATCH = 1_000;

/**
 * Removes what has expired in the background, faster while there is much. Expiry is enforced on every read, so sweeping only
 * frees room and may take its time. `sweep` removes at most `limit`, and says how many it has removed.
 */
export function startSweeping(intervalMs: number, sweep: (limit: number) => Promise<number>): { stop(): void } {
  let timer: NodeJS.Timeout;
  let stopped = false;

  async function round(): Promise<void> {
    // A sweep that fails loses nothing, and the writes of requests report the cause.
    const removed = await sweep(SWEEP_BATCH).catch(() => 0);
    schedule(removed > SWEEP_BATCH / 2 ? 0 : intervalMs);
  }

  function schedule(delayMs: number): void {
    if (!stopped) timer = setTimeout(round, delayMs).unref();
  }

  schedule(intervalMs);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
