import type { Sample } from './sample.js';

/** More processes than this are no deployment but a mistake; the ones that were silent longest are forgotten. */
const MOST_PROCESSES = 100;
/** Samples of this overlap are requested again, because clocks of processes differ; duplicates are found by process and time. */
const OVERLAP_MS = 60_000;

/** The samples of one process that are kept, oldest first. */
export interface ProcessHistory {
  readonly instance: string;
  /** The newest. */
  readonly latest: Sample;
  readonly samples: readonly Sample[];
}

/** The samples of each process in the last minutes, each kept once. Its size stays bounded. */
export class History {
  readonly #processes = new Map<string, { instance: string; latest: Sample; samples: Sample[] }>();
  #latestAt = 0;

  constructor(readonly keepMs: number) {}

  /** The time of the newest sample; 0 while there is none. */
  get latestAt(): number {
    return this.#latestAt;
  }

  /** The next request asks for samples after this time; 0: for all. */
  get since(): number {
    return Math.max(0, this.#latestAt - OVERLAP_MS);
  }

  /** In the order in which they were started. */
  get processes(): readonly ProcessHistory[] {
    return [...this.#processes.values()].sort(
      (a, b) => a.latest.process.startedAt - b.latest.process.startedAt || a.instance.localeCompare(b.instance),
    );
  }

  /** Adds the samples of the answer to a request with `since`, and returns how many were new. */
  addAnswer(samples: readonly Sample[]): number {
    // Older samples than requested come after the service's clock was set back: those that are kept are of the future.
    if (samples[0] && samples[0].at <= this.since) {
      this.#processes.clear();
      this.#latestAt = 0;
    }
    return samples.filter((sample) => this.add(sample)).length;
  }

  /** Returns whether it was new. */
  add(sample: Sample): boolean {
    if (sample.at <= this.#latestAt - this.keepMs) return false;
    const known = this.#processes.get(sample.instance);
    if (!known) {
      this.#processes.set(sample.instance, { instance: sample.instance, latest: sample, samples: [sample] });
    } else if (sample.at > known.latest.at) {
      known.samples.push(sample);
      known.latest = sample;
    } else {
      // Known samples come again with each poll, with late ones between them.
      const next = known.samples.findIndex(({ at }) => at >= sample.at);
      if (known.samples[next]?.at === sample.at) return false;
      known.samples.splice(next, 0, sample);
    }
    this.#latestAt = Math.max(this.#latestAt, sample.at);
    this.#forgetOld();
    return true;
  }

  #forgetOld(): void {
    const oldest = this.#latestAt - this.keepMs;
    for (const { instance, latest, samples } of this.#processes.values()) {
      while (samples[0] && samples[0].at <= oldest) samples.shift();
      if (latest.at <= oldest) this.#processes.delete(instance);
    }
    if (this.#processes.size <= MOST_PROCESSES) return;
    const [silent] = [...this.#processes.values()].sort((a, b) => a.latest.at - b.latest.at);
    if (silent) this.#processes.delete(silent.instance);
  }
}
