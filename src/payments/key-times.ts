import type { Clock } from '../clock.js';

/**
 * The times of the keys that this process generates: by its clock, but none that the ledger refuses as too old, which is what
 * a clock that was set back would give them.
 */
export interface KeyTimes {
  newKey(): string;
  /** The lowest since this was asked last and the ledger took the answer. */
  lowestMs(): number;
  /** The ledger took the lowest, and refuses keys below `keysFromMs`. */
  noted(keysFromMs: number): void;
}

export function createKeyTimes(newKey: (atMs?: number) => string, clock: Clock): KeyTimes {
  let keysFromMs = 0;
  let lowestMs = Number.POSITIVE_INFINITY;
  /** Asked for, and not known to be noted. */
  let askedMs = Number.POSITIVE_INFINITY;

  function lower(): number {
    const now = clock.now();
    lowestMs = Math.min(lowestMs, Math.max(now, keysFromMs));
    return now;
  }

  return {
    newKey: () => (lower() >= keysFromMs ? newKey() : newKey(keysFromMs)),
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
