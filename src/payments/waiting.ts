import type { Clock } from '../platform/clock.js';
import { FairPlaces } from './fair-places.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { KeyStore, Watch } from './ports/key-store.js';

/** Requests that wait at the same time in one process; one more is answered at once, as if it had not asked to wait. */
const MAX_WAITERS = 2_000;
/** The lock is looked at this often, because an announcement can be lost and a killed owner makes none. */
const LOOK_AGAIN_MS = 1_000;
/**
 * Between two tries of a waiter: none at first, then longer each time, so that a thousand waiters for one stuck payment do
 * not keep the stores busy.
 */
const TRY_AGAIN_MS = [0, 50, 100, 200, 400, 800, 1_000] as const;

/** The time that a request is ready to wait for (RFC 7240 4.3). */
export interface Patience {
  readonly ms: number;
  /** Aborted when the connection is gone; the end of the client's sending side alone does not mean that. */
  readonly gone: AbortSignal;
}

/** Lets requests wait for the attempt that is under way on their key, in this process or in another. */
export interface Waiting {
  /** A place among the waiters, returned with `leave`; undefined when all are taken, or the client has its share (rule P16). */
  enter(key: string, patience: Patience, client?: string): WaitingPlace | undefined;
  /** At the beginning of a drain: begins no more waits. Waits that are begun go on, because their payments may end in the drain. */
  close(): void;
  /** At the limit of a drain: ends all waits. */
  end(): void;
}

export interface WaitingPlace {
  /** True when the attempt has probably ended, so that a try is useful; false when the wait is over. */
  next(): Promise<boolean>;
  leave(): void;
}

export function createWaiting(
  keys: Pick<KeyStore, 'watch'>,
  clock: Clock,
  counts: Pick<PaymentCounts, 'waiters'> = createPaymentCounts(),
): Waiting {
  const watched = new Map<string, SharedWatch>();
  /** One for each waiter; aborted when its wait is over. */
  const waiters = new Set<AbortController>();
  const places = new FairPlaces(MAX_WAITERS, clock);
  let closed = false;

  /** All waiters of one key share one subscription and one look a second. */
  function join(key: string, onEnd: () => void): () => void {
    const shared = watched.get(key) ?? new SharedWatch(keys, clock, key, () => watched.delete(key));
    watched.set(key, shared);
    return shared.join(onEnd);
  }

  return {
    enter(key, { ms, gone }, client) {
      if (closed || !places.take(client)) return undefined;
      const waiter = new AbortController();
      const over = waiter.signal;
      const giveUp = () => waiter.abort();
      const cancelLimit = clock.after(ms, giveUp);
      gone.addEventListener('abort', giveUp, { once: true });
      // The signal does not fire again for a client that left during the first try.
      if (gone.aborted) giveUp();
      waiters.add(waiter);
      counts.waiters = waiters.size;
      let tries = 0;
      let triedAt = clock.monotonic();
      return {
        async next() {
          await until(over, (onEnd) => join(key, onEnd));
          const pauseMs = (TRY_AGAIN_MS[tries] ?? LOOK_AGAIN_MS) - (clock.monotonic() - triedAt);
          if (pauseMs > 0) await until(over, (onEnd) => clock.after(pauseMs, onEnd));
          tries += 1;
          triedAt = clock.monotonic();
          return !over.aborted;
        },
        leave() {
          cancelLimit();
          gone.removeEventListener('abort', giveUp);
          if (waiters.delete(waiter)) places.giveBack(client);
          counts.waiters = waiters.size;
        },
      };
    },
    close() {
      closed = true;
    },
    end() {
      closed = true;
      for (const waiter of waiters) waiter.abort();
    },
  };
}

/** Resolves when the event that `subscribe` waits for has happened, or `over` was aborted. */
function until(over: AbortSignal, subscribe: (onEnd: () => void) => () => void): Promise<void> {
  if (over.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const unsubscribe = subscribe(end);
    over.addEventListener('abort', end, { once: true });
    function end(): void {
      over.removeEventListener('abort', end);
      unsubscribe();
      resolve();
    }
  });
}

/** One key's watch, while there are waiters and the lock is held. */
class SharedWatch {
  private readonly listeners = new Set<() => void>();
  private watch: Watch | undefined;
  private cancelLook = () => {};
  private over = false;

  constructor(
    private readonly keys: Pick<KeyStore, 'watch'>,
    private readonly clock: Clock,
    private readonly key: string,
    private readonly onOver: () => void,
  ) {
    this.look();
  }

  join(onEnd: () => void): () => void {
    this.listeners.add(onEnd);
    return () => {
      this.listeners.delete(onEnd);
      if (this.listeners.size === 0) this.close();
    };
  }

  /** Subscribes first, then looks: an end between the two is not missed. */
  private async look(): Promise<void> {
    const watch = await this.keys.watch(this.key, () => this.end()).catch(() => undefined);
    if (this.over) {
      watch?.unwatch();
      return;
    }
    this.watch?.unwatch();
    this.watch = watch;
    if (watch && watch.looked.state !== 'locked') this.end();
    // Also when the store is down: it is asked again.
    else this.cancelLook = this.clock.after(LOOK_AGAIN_MS, () => this.look());
  }

  private end(): void {
    if (this.over) return;
    const listeners = [...this.listeners];
    this.close();
    for (const listener of listeners) listener();
  }

  private close(): void {
    if (this.over) return;
    this.over = true;
    this.cancelLook();
    this.watch?.unwatch();
    this.onOver();
  }
}
