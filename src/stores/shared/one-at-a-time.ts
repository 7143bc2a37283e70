import type { Clock } from '../../platform/clock.js';
import { BoundedQueue } from './bounded-queue.js';

/** Each is a request with a client, which waits no longer than the queue lets it, and holds a body of up to 1 MiB. */
const MAX_WAITING = 32;
/** The longest rest: a write that only waited for an unavailable store needs no equally long one. */
const MOST_REST_MS = 200;

interface QueuedWork {
  readonly begin: () => void;
  readonly reject: (fault: Error) => void;
}

/**
 * Runs large writes one after the other. After each comes a rest of the same length, in which the store is free for all other
 * writes, so large writes take at most half of its time. A write that has not begun within `QUEUE_LIMIT_MS` is refused, and
 * changed nothing.
 */
export class OneAtATime {
  private readonly waiting: BoundedQueue<QueuedWork>;
  private isBusy = false;

  /** `store`: the name of the store in the messages of faults. */
  constructor(
    store: string,
    private readonly clock: Clock,
  ) {
    this.waiting = new BoundedQueue(store, MAX_WAITING, clock);
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.isBusy) await new Promise<void>((begin, reject) => this.waiting.add({ begin, reject }));
    this.isBusy = true;
    const begunAt = this.clock.monotonic();
    try {
      return await work();
    } finally {
      const restMs = Math.min(this.clock.monotonic() - begunAt, MOST_REST_MS);
      this.clock.after(restMs, () => this.next());
    }
  }

  private next(): void {
    const [first] = this.waiting.take(1);
    if (first) first.begin();
    else this.isBusy = false;
  }
}
