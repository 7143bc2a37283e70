import type { Clock } from '../platform/clock.js';
import { type Look, type ProcessIdentity, type Sample, spanOf } from './sample.js';

/** A chart of fifteen minutes has 180 points then, and a sample costs less than a thousandth of this. */
export const INTERVAL_MS = 5_000;

/** Looks at the metrics of this process every few seconds. */
export interface Sampler {
  start(): void;
  stop(): void;
}

export function createSampler(
  identity: ProcessIdentity,
  look: () => Look,
  clock: Clock,
  onSample: (sample: Sample) => void,
): Sampler {
  let cancelNext = () => {};

  function next(before: Look, beforeAt: number): void {
    cancelNext = clock.after(INTERVAL_MS, () => {
      const now = look();
      const nowAt = clock.monotonic();
      next(now, nowAt);
      const at = Math.floor(clock.now());
      onSample({ type: 'sample', at, ...identity, spanMs: Math.round(nowAt - beforeAt), ...spanOf(now, before) });
    });
  }

  return {
    start: () => next(look(), clock.monotonic()),
    stop: () => cancelNext(),
  };
}
