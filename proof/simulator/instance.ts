import type { Clock } from '#idempay/clock.js';
import type { Actor, Simulation } from './simulation.js';

/** The clocks of one instance: they are its machine's, so they may be wrong, and its timers stop when it is stopped. */
export interface InstanceClock extends Clock {
  /** Milliseconds that its wall clock is ahead. */
  wallAheadMs: number;
}

export function createInstanceClock(simulation: Simulation, instance: Actor, bornAheadMs: number): InstanceClock {
  return {
    wallAheadMs: 0,
    now() {
      return simulation.time + this.wallAheadMs;
    },
    monotonic: () => simulation.time + bornAheadMs,
    after: (ms, callBack) => simulation.after(ms, '', instance, callBack),
  };
}
