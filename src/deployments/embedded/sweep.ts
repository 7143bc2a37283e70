import type { StoreCounters } from './store-counters.js';
import type { Writer } from './writer.js';

/** Expiry is enforced on every read, so sweeping only frees room and may take its time. */
const SWEEP_INTERVAL_MS = 1_000;
/** Removed in one commit: a few milliseconds of the writer's time. */
const SWEEP_BATCH = 1_000;

/** Removes expired key records in the background, faster while there are many. */
export function startSweeping(writer: Writer, counters: StoreCounters): { stop(): void } {
  let timer: NodeJS.Timeout;
  let stopped = false;

  async function sweep(): Promise<void> {
    // A sweep that fails loses nothing, and the writes of requests report the cause.
    const removed = await writer.write('sweepKeys', { limit: SWEEP_BATCH }).catch(() => 0);
    counters.expiredKeys += removed;
    schedule(removed > SWEEP_BATCH / 2 ? 0 : SWEEP_INTERVAL_MS);
  }

  function schedule(delayMs: number): void {
    if (!stopped) timer = setTimeout(sweep, delayMs).unref();
  }

  schedule(SWEEP_INTERVAL_MS);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
