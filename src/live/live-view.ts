import type { Clock } from '../platform/clock.js';
import { type Sample, sampleIn } from './sample.js';
import { INTERVAL_MS } from './sampler.js';
import { KEEP_MS, type SharedSamples } from './shared-samples.js';

/** More than a team has open at once. All watchers of a process share one read of the samples a second. */
const MOST_WATCHERS = 32;
/** Another process' sample is shown this late at most. */
const LOOK_EVERY_MS = 1_000;
/** How many samples of this process are kept. */
const OWN_SAMPLES = KEEP_MS / INTERVAL_MS;
/** How many samples of all other processes together are kept, while somebody looks: 15 minutes of 55 processes, some 15 MB. */
const OTHER_SAMPLES = 10_000;

/**
 * A watcher's time is that of the newest sample, so one of a clock that is far ahead would move all others out of what is shown: it is left
 * out. Clocks of machines that are synchronized differ by less.
 */
const CLOCK_AHEAD_MS = 60_000;

/** Receives the lines of one stream. Neither method may throw. */
export interface Watcher {
  /** One JSON object, without an end of line. */
  line(text: string): void;
  /** Nothing more comes. */
  end(): void;
}

interface Entry {
  readonly at: number;
  readonly line: string;
}

interface Watching {
  readonly watcher: Watcher;
  lastAt: number;
  /** Has received the earlier samples. */
  isCurrent: boolean;
}

/**
 * Sends the samples of all processes to its watchers. A process keeps its own. The others' are read and kept while there are
 * watchers; when they cannot be read, the view has a gap.
 */
export class LiveView {
  private readonly own: Entry[] = [];
  private others: Entry[] = [];
  private position: string | undefined;
  private readonly watching = new Set<Watching>();
  /** The first read of other processes' samples since there are watchers. Undefined while there are none. */
  private looked: Promise<void> | undefined;
  private stopped = false;

  constructor(
    private readonly instance: string,
    private readonly shared: SharedSamples | undefined,
    private readonly clock: Clock,
  ) {}

  /** Takes the next sample of this process. */
  add(sample: Sample): void {
    const line = JSON.stringify(sample);
    this.own.push({ at: sample.at, line });
    if (this.own.length > OWN_SAMPLES) this.own.shift();
    this.show(line);
    this.shared?.append(line).catch(() => {});
  }

  /**
   * Tells the samples of the last fifteen minutes that are younger than `since`, then each that comes, and a beat where none comes.
   * Returns a function that ends it, or undefined where `MOST_WATCHERS` are connected or the process stops.
   */
  watch(since: number, watcher: Watcher): (() => void) | undefined {
    const { watching, instance } = this;
    if (this.stopped || watching.size >= MOST_WATCHERS) return undefined;
    const one: Watching = { watcher, lastAt: this.clock.monotonic(), isCurrent: false };
    watching.add(one);
    this.tell(one, JSON.stringify({ type: 'hello', intervalMs: INTERVAL_MS, keepMs: KEEP_MS, instance }));
    this.looked ??= this.lookAgain();
    this.looked.then(() => {
      if (!watching.has(one)) return;
      const kept = [...this.own, ...this.others].filter((entry) => entry.at > since && !this.isOld(entry));
      for (const { line } of kept.sort((a, b) => a.at - b.at)) this.tell(one, line);
      one.isCurrent = true;
    });
    return () => watching.delete(one);
  }

  /** Ends every stream at once; no other one begins. */
  stop(): void {
    this.stopped = true;
    for (const { watcher } of this.watching) watcher.end();
    this.watching.clear();
  }

  private tell(one: Watching, line: string): void {
    one.lastAt = this.clock.monotonic();
    one.watcher.line(line);
  }

  private show(line: string): void {
    for (const one of [...this.watching]) if (one.isCurrent) this.tell(one, line);
  }

  /** Faults are ignored: the log already reports the unavailable store, and the next look tries again. */
  private async lookAtOthers(): Promise<void> {
    if (!this.shared) return;
    try {
      for (let isLast = false; !isLast && this.watching.size > 0; ) {
        const page = await this.shared.read(this.position);
        this.position = page.position;
        isLast = page.isLast;
        for (const line of page.lines) this.noteOther(line);
      }
    } catch {}
  }

  private noteOther(line: string): void {
    const sample = sampleIn(line);
    if (!sample || sample.instance === this.instance || this.isOld(sample)) return;
    if (sample.at > this.clock.now() + CLOCK_AHEAD_MS) return;
    this.others.push({ at: sample.at, line });
    if (this.others.length > OTHER_SAMPLES) this.others.shift();
    this.show(line);
  }

  private isOld({ at }: { readonly at: number }): boolean {
    return at <= this.clock.now() - KEEP_MS;
  }

  private async lookAgain(): Promise<void> {
    await this.lookAtOthers();
    if (this.watching.size === 0) {
      this.others = [];
      this.position = undefined;
      this.looked = undefined;
      return;
    }
    this.others = this.others.filter((entry) => !this.isOld(entry));
    for (const one of [...this.watching]) {
      if (this.clock.monotonic() - one.lastAt < INTERVAL_MS) continue;
      this.tell(one, JSON.stringify({ type: 'beat', at: Math.floor(this.clock.now()) }));
    }
    this.clock.after(LOOK_EVERY_MS, () => this.lookAgain());
  }
}
