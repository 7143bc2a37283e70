import { pause } from './until.js';

/** A timer may fire a little before the moment by another clock, and a store's own clock counts whole milliseconds. */
const CLOCK_GRAIN_MS = 10;

/** Lets a lease or a life of `ms`, begun before the call, surely be over, by the store's own clock too. */
export function untilPast(ms: number): Promise<void> {
  return pause(ms + CLOCK_GRAIN_MS);
}
