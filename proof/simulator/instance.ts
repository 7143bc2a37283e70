import type { Clock } from '#idempay/clock.js';
import type { Actor, Simulation } from './simulation.js';

/** A machine's wall clock; the clocks of one machine are wrong together. */
export interface WallClock {
  aheadMs: number;
}

/** The clocks of one instance: its machine's wall clock, a monotonic one that began at its birth, and timers. */
export function createInstanceClock(
  simulation: Simulation,
  instance: Actor,
  wall: WallClock,
  bornAheadMs: number,
): Clock {
  return {
    now: () => simulation.time + wall.aheadMs,
    monotonic: () => simulation.time + bornAheadMs,
    after: (ms, callBack) => simulation.after(ms, instance, callBack),
  };
}

export function newActor(name: string, index: number): Actor {
  return { name, index, alive: true, pausedUntil: 0, pausedSince: 0, pausedMs: 0, wakesInOrder: false };
}
