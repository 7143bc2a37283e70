import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../platform/clock.js';
import type { PaymentHistory } from '../ports/payment-history.js';

export const BUCKET_MS = 600_000;
/** The last 24 hours, the bucket that is still open among them. */
export const BUCKETS = 144;
/** Read at a time: a millisecond of a store that reads in this process. */
const PAGE = 500;
/**
 * A row is seen this much later than its time at most: by its commit, which a statement's time-out bounds, and by the difference of
 * the store's clock and ours, which the doctor looks at. Nothing younger is remembered.
 */
const LATE_MS = 120_000;
/** After this time no further bucket is begun; the next request continues with it. */
const COUNT_FOR_MS = 2_000;

export interface Activity {
  readonly bucketMs: number;
  /** Milliseconds since the epoch. */
  readonly to: number;
  /** True if all buckets are there; otherwise older ones are still to be counted. */
  readonly complete: boolean;
  /** Oldest first. */
  readonly buckets: readonly ActivityBucket[];
}

/** Payments that were settled in the `BUCKET_MS` from `from` on. */
export interface ActivityBucket {
  readonly from: number;
  readonly completed: number;
  readonly declined: number;
}

interface Counts {
  readonly completed: number;
  readonly declined: number;
}

/** Counts of the rows from the bucket's begin to `until`, which do not change any more. */
interface Remembered extends Counts {
  readonly until: number;
}

/**
 * Counts the settled payments of the last 24 hours from the rows, each row once: counts that only a removal could change are
 * remembered, and the last minutes are counted again. Concurrent requests share one count.
 */
export function createPaymentActivity(
  history: Pick<PaymentHistory, 'countSettled'>,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): () => Promise<Activity> {
  const remembered = new Map<number, Remembered>();
  let counting: Promise<Activity> | undefined;
  let countedAt = 0;

  /** Newest first, because the newest buckets matter most. */
  async function count(): Promise<Activity> {
    const begun = clock.monotonic();
    const to = Math.floor(clock.now());
    // The clock was set back by more than half of LATE_MS: rows may still be added to periods that were counted.
    if (to < countedAt - LATE_MS / 2) {
      remembered.clear();
      countedAt = to;
    }
    countedAt = Math.max(countedAt, to);
    const newest = to - (to % BUCKET_MS);
    const oldest = newest - (BUCKETS - 1) * BUCKET_MS;
    for (const from of remembered.keys()) if (from < oldest) remembered.delete(from);

    const buckets: ActivityBucket[] = [];
    for (let from = newest; from >= oldest; from -= BUCKET_MS) {
      const isCounted = remembered.get(from)?.until === from + BUCKET_MS;
      if (!isCounted && clock.monotonic() - begun > COUNT_FOR_MS) continue;
      buckets.unshift({ from, ...(await countBucket(from, to - LATE_MS)) });
    }
    return { bucketMs: BUCKET_MS, to, complete: buckets.length === BUCKETS, buckets };
  }

  async function countBucket(from: number, sureTo: number): Promise<Counts> {
    const end = from + BUCKET_MS;
    let { until, ...counts }: Remembered = remembered.get(from) ?? { completed: 0, declined: 0, until: from };
    const sure = Math.min(end, sureTo);
    if (sure > until) {
      counts = sum(counts, await countRange(until, sure));
      until = sure;
      remembered.set(from, { ...counts, until });
    }
    return until < end ? sum(counts, await countRange(until, end)) : counts;
  }

  async function countRange(from: number, to: number): Promise<Counts> {
    let counts: Counts = { completed: 0, declined: 0 };
    let after: string | undefined;
    do {
      const page = await history.countSettled({ from, to, after, limit: PAGE });
      counts = sum(counts, page);
      after = page.next;
      // Lets other requests run, also if the store reads in this process.
      await setImmediate();
    } while (after !== undefined);
    return counts;
  }

  return function activity() {
    counting ??= count().finally(() => {
      counting = undefined;
    });
    return counting;
  };
}

function sum(one: Counts, other: Counts): Counts {
  return { completed: one.completed + other.completed, declined: one.declined + other.declined };
}
