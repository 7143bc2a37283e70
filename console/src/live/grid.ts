import type { ProcessHistory } from './history.js';
import type { Sample } from './sample.js';

/** A process whose newest sample is this many intervals old is not waited for. */
const WAITED_INTERVALS = 2.5;
/** Spans are whole milliseconds: neighbours may miss a moment between them. */
const ROUNDING_MS = 5;

/**
 * The samples of all processes at common moments: for each moment the samples whose span covers it. A moment without any sample is a
 * gap. The arrays are made once and filled again.
 */
export class Grid {
  readonly times: number[];
  /** For each time, of each process at most one. */
  readonly covering: Sample[][];
  /** Index of the last moment for which every living process has sent a sample; below 0: there is none. */
  lastIndex = -1;

  constructor(
    readonly intervalMs: number,
    readonly keepMs: number,
  ) {
    const count = Math.round(keepMs / intervalMs) + 1;
    this.times = Array.from({ length: count }, () => 0);
    this.covering = Array.from({ length: count }, () => []);
  }

  /** Ends at `now`. */
  fill(processes: readonly ProcessHistory[], now: number): void {
    const { intervalMs, times, covering } = this;
    const end = Math.floor(now / intervalMs) * intervalMs;
    const begin = end - (times.length - 1) * intervalMs;
    for (const [index, samples] of covering.entries()) {
      times[index] = begin + index * intervalMs;
      samples.length = 0;
    }
    const told = this.#toldUntil(processes, now);
    this.lastIndex = Math.min(times.length - 1, Math.floor((told - begin) / intervalMs));
    for (const { samples } of processes) {
      for (const sample of samples) {
        const from = sample.at - sample.spanMs - ROUNDING_MS;
        const first = Math.max(0, Math.floor((from - begin) / intervalMs) + 1);
        const last = Math.min(this.lastIndex, Math.floor((sample.at - begin) / intervalMs));
        for (let index = first; index <= last; index += 1) {
          const there = covering[index];
          if (there?.at(-1)?.instance !== sample.instance) there?.push(sample);
        }
      }
    }
    this.#widenGaps();
  }

  /** Processes begin and end a gap at different moments: a sum over only some of them would look like a drop. */
  #widenGaps(): void {
    const counts = this.covering.map(({ length }) => length);
    for (const [index, samples] of this.covering.entries()) {
      const [before = 0, count = 0, after = 0] = [counts[index - 1], counts[index], counts[index + 1]];
      const isEdge = (before === 0 && count < after) || (after === 0 && count < before && index < this.lastIndex);
      if (isEdge) samples.length = 0;
    }
  }

  /** Processes sample at different moments: a sum over those that have sent a sample already would look like a drop. */
  #toldUntil(processes: readonly ProcessHistory[], now: number): number {
    const newest = processes.map(({ latest }) => latest.at);
    const living = newest.filter((at) => at > now - WAITED_INTERVALS * this.intervalMs);
    return living.length > 0 ? Math.min(...living) : Math.max(0, ...newest);
  }
}
