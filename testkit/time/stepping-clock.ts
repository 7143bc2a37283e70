import { type Clock, systemClock } from '#idempay/clock.js';

/** Far more than any real call takes. */
export const STEP_MS = 1_000;

/** The real clock until it is told to step: then each look at it finds it `STEP_MS` later, as if each call were that slow. */
export class SteppingClock implements Clock {
  private aheadMs = 0;
  private stepMs = 0;

  now(): number {
    return systemClock.now();
  }

  monotonic(): number {
    const now = systemClock.monotonic() + this.aheadMs;
    this.aheadMs += this.stepMs;
    return now;
  }

  after(ms: number, callBack: () => void): () => void {
    return systemClock.after(ms, callBack);
  }

  /** Returns the moment that the next look finds; real time goes on beside the steps. */
  startStepping(): number {
    this.stepMs = STEP_MS;
    return systemClock.monotonic() + this.aheadMs;
  }
}
