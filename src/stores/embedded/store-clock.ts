import type { Clock } from '../../platform/clock.js';
import { pageAt } from '../../platform/manual.js';

/**
 * The clock that all times in the database come from: of keys, leases and outcomes. It begins at the wall clock's time or at
 * the last time that the store wrote, whichever is later, and then runs by the monotonic clock. So it never runs back, not
 * over a restart either, and a wall clock that is set while the process runs changes nothing.
 */
export class StoreClock implements Clock {
  readonly #clock: Clock;
  readonly #beginsMs: number;
  #writtenMs: number;
  #leastMs: number;

  /** `nowMs`: its time now, if it has begun already in another thread. */
  constructor(clock: Clock, lastWrittenMs: number, nowMs = Math.max(clock.now(), lastWrittenMs)) {
    this.#clock = clock;
    this.#writtenMs = lastWrittenMs;
    this.#leastMs = lastWrittenMs;
    this.#beginsMs = nowMs - clock.monotonic();
  }

  /** The last time that was written: no later start of this store begins before it. Milliseconds since the epoch. */
  get writtenMs(): number {
    return this.#writtenMs;
  }

  /** Whole milliseconds since the epoch. */
  now = (): number => Math.max(this.#leastMs, Math.floor(this.#beginsMs + this.#clock.monotonic()));

  monotonic = (): number => this.#clock.monotonic();

  after(ms: number, callBack: () => void): () => void {
    return this.#clock.after(ms, callBack);
  }

  /** A commit with this time is on the disk. */
  wrote(ms: number): void {
    if (ms > this.#writtenMs) this.#writtenMs = ms;
    this.runTo(ms);
  }

  /** From now on it is this time or later: the two threads of the process read their own clocks, milliseconds apart. */
  runTo(ms: number): void {
    if (ms > this.#leastMs) this.#leastMs = ms;
  }

  /** Negative if it is behind, because the machine was suspended or its wall clock was set ahead. Milliseconds. */
  aheadOfWallClock(): number {
    return this.now() - this.#clock.now();
  }
}

/** A reading of a clock that goes from one thread to another: each thread counts monotonic time from a moment of its own. */
export interface SentTime {
  /** Milliseconds since the epoch. */
  readonly ms: number;
  /** The machine's monotonic clock when the time was read. */
  readonly readAtMs: number;
}

export const sendTime = (ms: number): SentTime => ({ ms, readAtMs: machineMs() });

export const receiveTime = ({ ms, readAtMs }: SentTime): number => ms + machineMs() - readAtMs;

const machineMs = () => Number(process.hrtime.bigint()) / 1e6;

/** More than a clock is set back by NTP, and far less than a life of a key. */
export const NOTICEABLE_MS = 60_000;
const LOOK_EVERY_MS = 60_000;

/** Tells, once each time that it begins, that the store's clock is ahead: then keys are refused, and times are shown, too early. */
export function watchStoreClock(
  storeClock: StoreClock,
  clock: Clock,
  warn: (sentence: string) => void,
): { stop(): void } {
  let wasAhead = false;
  let cancelNext = () => {};

  function look(): void {
    const aheadMs = storeClock.aheadOfWallClock();
    const isAhead = aheadMs > NOTICEABLE_MS;
    if (isAhead && !wasAhead) {
      warn(
        `The store's clock is ${Math.round(aheadMs / 1_000)} s ahead of this machine's: a clock was wrong before, or was set back now. No key that was refused becomes good again, so the store's clock is never set back; see "Clocks" in ${pageAt('docs/operations/deployment.md')}.`,
      );
    }
    wasAhead = isAhead;
    cancelNext = clock.after(LOOK_EVERY_MS, look);
  }

  look();
  return { stop: () => cancelNext() };
}
