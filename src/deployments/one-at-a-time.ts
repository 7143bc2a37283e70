import type { Clock } from '../clock.js';
import { BoundedQueue } from './bounded-queue.js';

/** Each is a request with a client, which waits no longer than the queue lets it. */
const MAX_WAITING = 256;

interface Waiting {
  readonly begin: () => void;
  readonly reject: (fault: Error) => void;
}

/**
 * Runs large writes one after the other, so that other writes find a turn between them. What has not begun within
 * `QUEUE_LIMIT_MS` is refused, and changed nothing.
 */
export class OneAtATime {
  private readonly waiting: BoundedQueue<Waiting>;
  private isBusy = false;

  /** `store` names what is waited for, in the faults. */
  constructor(store: string, clock: Clock) {
    this.waiting = new BoundedQueue(store, MAX_WAITING, clock);
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.isBusy) await new Promise<void>((begin, reject) => this.waiting.add({ begin, reject }));
    this.isBusy = true;
    try {
      return await work();
    } finally {
      const [next] = this.waiting.take(1);
      if (next) next.begin();
      else this.isBusy = false;
    }
  }
}
