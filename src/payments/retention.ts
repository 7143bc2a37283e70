import type { Clock } from '../platform/clock.js';
import type { PaymentEvents } from './context.js';
import type { KeyTimes } from './issue.js';
import type { Ledger } from './ports/ledger.js';

/** How often the time that passed is noted, and old payments are looked for; they may stay this much longer. */
const ROUND_INTERVAL_MS = 60_000;
/** Looked at in one commit: a few milliseconds of the store's time. */
const REMOVAL_BATCH = 500;
/** Between two batches, so that live payments come first. */
const BATCH_INTERVAL_MS = 50;

export interface Retention {
  /** Resolves when the first time was noted, or failed to be: before the first key is generated. */
  start(): Promise<void>;
  /** Begins nothing more; resolves when the batch under way has been removed. */
  stop(): Promise<void>;
}

/**
 * Notes in the ledger how time passes, and removes final payments that were settled more than `retentionMs` ago, in small
 * batches; undefined keeps them for ever. Time is noted in any case: a retention that is set later finds it counted.
 */
export function createRetention(
  ledger: Ledger,
  retentionMs: number | undefined,
  clock: Clock,
  keyTimes: KeyTimes,
  events: Pick<PaymentEvents, 'fault' | 'unseen'>,
): Retention {
  let cancelNext = () => {};
  let stopped = false;
  let underWay: Promise<void> = Promise.resolve();
  let seenMs = 0;
  let notedAt: number | undefined;
  let unseenMs = 0;

  async function noteElapsed(): Promise<void> {
    const askedAt = clock.monotonic();
    const elapsedMs = Math.floor(askedAt - (notedAt ?? askedAt));
    const noted = await ledger.noteElapsed({ sinceMs: seenMs, elapsedMs, lowestKeyMs: keyTimes.lowestMs() });
    notedAt = askedAt;
    seenMs = noted.seenMs;
    keyTimes.noted(noted.keysFromMs);
    if (retentionMs !== undefined && noted.unseenMs > unseenMs) events.unseen(noted.unseenMs);
    unseenMs = noted.unseenMs;
  }

  async function round(): Promise<void> {
    let more = false;
    try {
      if (notedAt === undefined || clock.monotonic() - notedAt >= ROUND_INTERVAL_MS) await noteElapsed();
      if (retentionMs !== undefined) ({ more } = await ledger.removeSettled(retentionMs, REMOVAL_BATCH));
    } catch (fault) {
      events.fault(fault);
    }
    if (!stopped) schedule(more ? BATCH_INTERVAL_MS : ROUND_INTERVAL_MS);
  }

  function schedule(delayMs: number): void {
    cancelNext = clock.after(delayMs, () => {
      underWay = round();
    });
  }

  return {
    async start() {
      await noteElapsed().catch(events.fault);
      if (!stopped) schedule(0);
    },
    async stop() {
      stopped = true;
      cancelNext();
      await underWay;
    },
  };
}
