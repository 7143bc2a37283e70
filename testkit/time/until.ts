import { patience } from './patience.js';

const POLL_INTERVAL_MS = 20;
const CLOCK_GRAIN_MS = 10;

/**
 * Waits until `condition` returns something other than undefined and false, and returns it. Throws a sentence with
 * `what` when `deadlineMs` has passed, or more on a slow machine; an error thrown by the condition ends the wait at once.
 */
export async function until<T>(
  what: string,
  deadlineMs: number,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const begunMs = performance.now();
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    const waitedMs = performance.now() - begunMs;
    // The machine is measured only if the time is over.
    if (waitedMs > deadlineMs && waitedMs > patience(deadlineMs)) {
      throw new Error(`not within ${Math.round(waitedMs)} ms: ${what}`);
    }
    await pause(POLL_INTERVAL_MS);
  }
}

/**
 * Lets a lease or a life of `ms` surely be over, though timers fire early, a store's clock counts whole milliseconds, and the machine's clock
 * may be set back meanwhile.
 */
export async function untilPast(ms: number): Promise<void> {
  const beganAt = Date.now();
  await pause(ms + CLOCK_GRAIN_MS);
  while (Date.now() < beganAt + ms + CLOCK_GRAIN_MS) await pause(CLOCK_GRAIN_MS);
}

/** Real time passing: for the moment of a kill and the pace of a poll, never in place of a condition. */
export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
