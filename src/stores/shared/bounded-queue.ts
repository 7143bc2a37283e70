import type { Clock } from '../../platform/clock.js';
import { StoreUnavailable } from '../../platform/faults.js';

/** Longer than a store's usual pause (a checkpoint, a slow disk), shorter than a payer's patience. */
export const QUEUE_LIMIT_MS = 3_000;

interface Waiter {
  readonly reject: (fault: StoreUnavailable) => void;
}

/**
 * Entries that wait to be handed over to a store, in the order of arrival. Their number and waiting time are limited. An entry
 * that is refused here was never handed over, so it changed nothing.
 */
export class BoundedQueue<Entry extends Waiter> {
  private readonly entries: Entry[] = [];
  /** The monotonic moment until which the entry at the same place waits. */
  private readonly deadlines: number[] = [];
  private cancelTimer: (() => void) | undefined;

  /** `store`: the name of the store in the messages of faults. */
  constructor(
    private readonly store: string,
    private readonly maxLength: number,
    private readonly clock: Clock,
  ) {}

  get length(): number {
    return this.entries.length;
  }

  add(entry: Entry): void {
    if (this.entries.length >= this.maxLength) {
      entry.reject(new StoreUnavailable('unchanged', `${this.store}: ${this.maxLength} requests are waiting already`));
      return;
    }
    this.entries.push(entry);
    this.deadlines.push(this.clock.monotonic() + QUEUE_LIMIT_MS);
    this.cancelTimer ??= this.clock.after(QUEUE_LIMIT_MS, () => this.refuseLate());
  }

  /** Removes and returns the first `most` entries. */
  take(most: number): Entry[] {
    this.deadlines.splice(0, most);
    return this.entries.splice(0, most);
  }

  refuseAll(fault: StoreUnavailable): void {
    for (const { reject } of this.take(this.entries.length)) reject(fault);
  }

  /** All wait equally long, so the first one is the first to be late: one timer serves all. */
  private refuseLate(): void {
    const now = this.clock.monotonic();
    const firstInTime = this.deadlines.findIndex((deadline) => deadline > now);
    for (const { reject } of this.take(firstInTime < 0 ? this.entries.length : firstInTime)) {
      reject(new StoreUnavailable('unchanged', `${this.store} took nothing from the queue for ${QUEUE_LIMIT_MS} ms`));
    }
    const [next] = this.deadlines;
    this.cancelTimer = next === undefined ? undefined : this.clock.after(next - now, () => this.refuseLate());
  }
}
