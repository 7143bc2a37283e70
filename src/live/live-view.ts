import type { Clock } from '../platform/clock.js';
import { type Sample, sampleIn } from './sample.js';
import { INTERVAL_MS } from './sampler.js';
import { KEEP_MS, type SharedSamples } from './shared-samples.js';

/** A sample of another process is shown this much later at most. */
const READ_AGAIN_AFTER_MS = 1_000;
/** Longer than the pause between two requests of a page, also of one that could not reach the service for half a minute. */
const FORGET_AFTER_MS = 60_000;
/** How many samples of this process are kept. */
const OWN_SAMPLES = KEEP_MS / INTERVAL_MS;
/** How many samples of all other processes together are kept, while somebody asks: 15 minutes of 55 processes, some 15 MB. */
const OTHER_SAMPLES = 10_000;

/**
 * The newest sample gives a client its time. A sample that is far ahead, of another clock or from before this clock was set back, would move
 * all others out of the view, so it is left out. Clocks of machines that are synchronized differ by less.
 */
const CLOCK_AHEAD_MS = 60_000;

interface Entry {
  readonly at: number;
  readonly line: string;
}

/**
 * The samples of all processes. A process keeps its own. The others' are read when somebody asks, from where the read before ended, and are
 * kept until nobody has asked for a minute; when they cannot be read, the view has a gap.
 */
export class LiveView {
  private readonly own: Entry[] = [];
  private others: Entry[] = [];
  private position: string | undefined;
  /** The read of other processes' samples that is under way, or ended less than a second ago. */
  private reading: Promise<void> | undefined;
  private cancelForgetting = () => {};

  constructor(
    readonly instance: string,
    private readonly shared: SharedSamples | undefined,
    private readonly clock: Clock,
  ) {}

  /** Takes the next sample of this process. */
  add(sample: Sample): void {
    const line = JSON.stringify(sample);
    // If the clock was set back, the older samples of the future would stand next to the new ones.
    while ((this.own.at(-1)?.at ?? Number.NEGATIVE_INFINITY) >= sample.at) this.own.pop();
    this.own.push({ at: sample.at, line });
    if (this.own.length > OWN_SAMPLES) this.own.shift();
    this.shared?.append(line).catch(() => {});
  }

  /**
   * The samples of the last fifteen minutes that are younger than `since`, as JSON, oldest first. A `since` that is far ahead counts as absent:
   * the client has it from before this clock was set back.
   */
  async samplesAfter(since: number): Promise<readonly string[]> {
    if (this.shared) {
      this.cancelForgetting();
      this.reading ??= this.readOthers(this.shared);
      await this.reading;
      // Several requests may have waited for this read.
      this.cancelForgetting();
      this.cancelForgetting = this.clock.after(FORGET_AFTER_MS, () => this.forgetOthers());
    }
    const from = this.isAhead({ at: since }) ? Number.NEGATIVE_INFINITY : since;
    return [...this.own, ...this.others]
      .filter((entry) => entry.at > from && !this.isOld(entry) && !this.isAhead(entry))
      .sort((a, b) => a.at - b.at)
      .map(({ line }) => line);
  }

  /** Faults are ignored: the log already reports the unavailable store, and the next read tries again. */
  private async readOthers(shared: SharedSamples): Promise<void> {
    this.others = this.others.filter((entry) => !this.isOld(entry));
    try {
      for (let isLast = false; !isLast; ) {
        const page = await shared.read(this.position);
        this.position = page.position;
        isLast = page.isLast;
        for (const line of page.lines) this.noteOther(line);
      }
    } catch {}
    this.clock.after(READ_AGAIN_AFTER_MS, () => {
      this.reading = undefined;
    });
  }

  private noteOther(line: string): void {
    const sample = sampleIn(line);
    if (!sample || sample.instance === this.instance || this.isOld(sample) || this.isAhead(sample)) return;
    this.others.push({ at: sample.at, line });
    if (this.others.length > OTHER_SAMPLES) this.others.shift();
  }

  private forgetOthers(): void {
    this.others = [];
    this.position = undefined;
  }

  private isOld({ at }: { readonly at: number }): boolean {
    return at <= this.clock.now() - KEEP_MS;
  }

  private isAhead({ at }: { readonly at: number }): boolean {
    return at > this.clock.now() + CLOCK_AHEAD_MS;
  }
}
