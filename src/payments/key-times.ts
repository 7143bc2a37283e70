import type { Clock } from '../platform/clock.js';

/**
 * Generates keys at the time of `keyClock`. After the clock was set back, keys get the lowest time that the ledger accepts, so
 * that they are not refused as too old.
 */
export interface KeyTimes {
  newKey(): string;
  /** The lowest key time since the last one that the ledger accepted; milliseconds since the epoch. */
  lowestMs(): number;
  /** The ledger accepted `lowestMs()`, and refuses keys with a time below `keysFromMs`. */
  noted(keysFromMs: number): void;
}

export function createKeyTimes(newKey: (atMs: number) => string, keyClock: Pick<Clock, 'now'>): KeyTimes {
  let keysFromMs = 0;
  let lowestMs = Number.POSITIVE_INFINITY;
  /** Reported to the ledger, and not confirmed yet. */
  let askedMs = Number.POSITIVE_INFINITY;

  function lower(): number {
    const now = keyClock.now();
    lowestMs = Math.min(lowestMs, Math.max(now, keysFromMs));
    return now;
  }

  return {
    newKey: () => newKey(Math.max(lower(), keysFromMs)),
    lowestMs() {
      lower();
      askedMs = Math.min(askedMs, lowestMs);
      lowestMs = Number.POSITIVE_INFINITY;
      return askedMs;
    },
    noted(from) {
      keysFromMs = from;
      askedMs = Number.POSITIVE_INFINITY;
    },
  };
}
