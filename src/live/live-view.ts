import type { Clock } from '../platform/clock.js';
import type { Sample } from './sample.js';
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

/** Receives the lines of one stream. Neither method may throw. */
export interface Watcher {
  /** One JSON object, without an end of line. */
  line(text: string): void;
  /** Nothing more comes. */
  end(): void;
}

export interface LiveView {
  /** Takes the next sample of this process. */
  add(sample: Sample): void;
  /**
   * Tells the samples of the last fifteen minutes that are younger than `since`, then each that comes, and a beat where none comes.
   * Returns a function that ends it; undefined: `MOST_WATCHERS` are connected, or the process stops.
   */
  watch(since: number, watcher: Watcher): (() => void) | undefined;
  /** Ends every stream at once; no other one begins. */
  stop(): void;
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
export function createLiveView(instance: string, shared: SharedSamples | undefined, clock: Clock): LiveView {
  const own: Entry[] = [];
  let others: Entry[] = [];
  let position: string | undefined;
  const watching = new Set<Watching>();
  /** The first read of other processes' samples since there are watchers; undefined: there are none. */
  let looked: Promise<void> | undefined;
  let stopped = false;

  function tell(one: Watching, line: string): void {
    one.lastAt = clock.monotonic();
    one.watcher.line(line);
  }

  function show(line: string): void {
    for (const one of [...watching]) if (one.isCurrent) tell(one, line);
  }

  /** Faults are ignored: the log already reports the unavailable store, and the next look tries again. */
  async function lookAtOthers(): Promise<void> {
    if (!shared) return;
    try {
      for (let isLast = false; !isLast && watching.size > 0; ) {
        const page = await shared.read(position);
        ({ position, isLast } = page);
        for (const line of page.lines) noteOther(line);
      }
    } catch {}
  }

  function noteOther(line: string): void {
    const sample = sampleIn(line);
    if (!sample || sample.instance === instance || isOld(sample)) return;
    others.push({ at: sample.at, line });
    if (others.length > OTHER_SAMPLES) others.shift();
    show(line);
  }

  function isOld({ at }: { readonly at: number }): boolean {
    return at <= clock.now() - KEEP_MS;
  }

  async function lookAgain(): Promise<void> {
    await lookAtOthers();
    if (watching.size === 0) {
      others = [];
      position = undefined;
      looked = undefined;
      return;
    }
    others = others.filter((entry) => !isOld(entry));
    for (const one of [...watching]) {
      if (clock.monotonic() - one.lastAt < INTERVAL_MS) continue;
      tell(one, JSON.stringify({ type: 'beat', at: Math.floor(clock.now()) }));
    }
    clock.after(LOOK_EVERY_MS, lookAgain);
  }

  return {
    add(sample) {
      const line = JSON.stringify(sample);
      own.push({ at: sample.at, line });
      if (own.length > OWN_SAMPLES) own.shift();
      show(line);
      shared?.append(line).catch(() => {});
    },

    watch(since, watcher) {
      if (stopped || watching.size >= MOST_WATCHERS) return undefined;
      const one: Watching = { watcher, lastAt: clock.monotonic(), isCurrent: false };
      watching.add(one);
      tell(one, JSON.stringify({ type: 'hello', intervalMs: INTERVAL_MS, keepMs: KEEP_MS, instance }));
      looked ??= lookAgain();
      looked.then(() => {
        if (!watching.has(one)) return;
        const kept = [...own, ...others].filter((entry) => entry.at > since && !isOld(entry));
        for (const { line } of kept.sort((a, b) => a.at - b.at)) tell(one, line);
        one.isCurrent = true;
      });
      return () => watching.delete(one);
    },

    stop() {
      stopped = true;
      for (const { watcher } of watching) watcher.end();
      watching.clear();
    },
  };
}

/** Undefined for a line that is not a sample of this service. */
function sampleIn(line: string): Pick<Sample, 'at' | 'instance'> | undefined {
  try {
    const { type, at, instance } = JSON.parse(line) as Partial<Sample>;
    const isSample = type === 'sample' && typeof at === 'number' && typeof instance === 'string';
    return isSample && !line.includes('\n') ? { at, instance } : undefined;
  } catch {
    return undefined;
  }
}
