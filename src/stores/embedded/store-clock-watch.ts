import type { Clock } from '../../platform/clock.js';
import type { StoreClock } from './store-clock.js';

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
        `The store's clock is ${Math.round(aheadMs / 1_000)} s ahead of this machine's: a clock was wrong before, or was set back now. No key that was refused becomes good again, so the store's clock is never set back; see "Clocks" in docs/operations/deployment.md.`,
      );
    }
    wasAhead = isAhead;
    cancelNext = clock.after(LOOK_EVERY_MS, look);
  }

  look();
  return { stop: () => cancelNext() };
}
