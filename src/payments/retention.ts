import type { Clock } from '../clock.js';
import type { Ledger } from './ledger.js';

/** How often old payments are looked for; they may stay this much longer than asked. */
const REMOVAL_INTERVAL_MS = 60_000;
/** Removed in one commit: a few milliseconds of the store's time. */
const REMOVAL_BATCH = 500;
/** Between two batches, so that live payments come first. */
const BREATH_MS = 50;

export interface Retention {
  start(): void;
  /** Begins nothing more; resolves when the batch under way has been removed. */
  stop(): Promise<void>;
}

/** Removes final payments that were settled more than `retentionMs` ago, a little at a time; undefined keeps them for ever. */
export function createRetention(
  ledger: Ledger,
  retentionMs: number | undefined,
  clock: Clock,
  onFault: (fault: unknown) => void,
): Retention {
  let cancelNext = () => {};
  let stopped = false;
  let removal: Promise<void> = Promise.resolve();

  async function removeBatch(): Promise<void> {
    if (retentionMs === undefined) return;
    const removed = await ledger.removeSettled(retentionMs, REMOVAL_BATCH).catch((fault: unknown) => {
      onFault(fault);
      return 0;
    });
    schedule(removed === REMOVAL_BATCH ? BREATH_MS : REMOVAL_INTERVAL_MS);
  }

  function schedule(delayMs: number): void {
    if (stopped) return;
    cancelNext = clock.after(delayMs, () => {
      removal = removeBatch();
    });
  }

  return {
    start: () => schedule(0),
    async stop() {
      stopped = true;
      cancelNext();
      await removal;
    },
  };
}
