import { type Random, seededRandom } from '../../testkit/random.js';
import { afterAllTurns, watchImmediates } from './immediates.js';

/** Far more than any seed takes: reaching it means that something never ends. */
const MAX_STEPS = 200_000;
/** What waits for a stopped instance comes in the order of time, and yet all but at once. */
const MOMENT = 1e-9;

interface Event {
  at: number;
  /** Events of one moment happen in the order in which they were made. */
  readonly order: number;
  readonly owner: Process | undefined;
  readonly run: () => void;
  readonly label: string;
  cancelled: boolean;
}

/** Somebody whom things happen to: an instance of the service, or a client. What is dead or stopped notices nothing. */
export interface Process {
  readonly name: string;
  /** Of the instance, among its like; restarts keep it. */
  readonly index: number;
  alive: boolean;
  /** By the simulation's time: everything that would reach it before arrives then. */
  pausedUntil: number;
  pausedSince: number;
  /** How long it has been stopped in all, by the end of the latest stop. */
  pausedMs: number;
  /** Whether what waits for it comes in the order of time; else what it waited for first comes first, timers before replies. */
  wakesInOrder: boolean;
}

/**
 * One simulated history. Time is a number; every step of the stores, the network, the timers and the clients is an event,
 * and what runs between two events is the real code. One seed decides everything, so a seed is a history.
 */
export class Simulation {
  /** Milliseconds since the beginning. */
  time = 0;
  steps = 0;
  /** A digest of every event so far: two runs of one seed must end with the same. */
  digest = 0x811c9dc5;
  /** When the last message on its way arrives: before that a store may still change with nobody doing anything. */
  busyUntil = 0;
  /** Whether anybody wants to read it: labels are made only then. */
  readonly tracing: boolean;
  readonly trace: string[] = [];
  /** What happened how often. */
  readonly counts = new Map<string, number>();
  private readonly queue: Event[] = [];
  private made = 0;
  private stopped = false;

  constructor(
    private readonly seed: number,
    options: { trace?: boolean } = {},
  ) {
    this.tracing = options.trace ?? false;
    watchImmediates();
  }

  /** A stream of choices of its own: what is chosen for one name does not depend on what happens to any other. */
  stream(name: string): Random {
    return seededRandom(scramble(hashOf(name) ^ this.seed));
  }

  /**
   * What is chosen for one thing that happens now: it depends on nothing but the name and the moment, so that in a history
   * without something else it is the same.
   */
  rng(name: number): Random {
    return seededRandom(scramble(scramble(name ^ this.seed) ^ Math.imul(this.time * 65_536, 0x9e3779b1)));
  }

  /** Something that happens to `owner` (or to nobody who could be dead or stopped) `ms` from now. */
  after(ms: number, owner: Process | undefined, run: () => void, label = ''): () => void {
    const event: Event = { at: this.time + Math.max(0, ms), order: this.made++, owner, run, label, cancelled: false };
    this.push(event);
    return () => {
      event.cancelled = true;
    };
  }

  /** A message on its way to something that keeps what it is told. */
  arrive(ms: number, owner: Process | undefined, run: () => void, label = ''): void {
    this.busyUntil = Math.max(this.busyUntil, this.time + ms);
    this.after(ms, owner, run, label);
  }

  /** A line of the trace that is no event of its own; whoever makes a text for it asks `tracing` first. '' is none. */
  note(text: string): void {
    if (this.tracing && text !== '') this.trace.push(`${this.time.toFixed(1).padStart(10)}  ${text}`);
  }

  count(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  /** Makes something that is no event part of the history's digest. */
  witness(text: string): void {
    for (let index = 0; index < text.length; index += 1) this.mix(text.charCodeAt(index));
  }

  /** Nothing more happens. */
  stop(): void {
    this.stopped = true;
  }

  /** Runs until `until` (time) has come, nothing is left to happen, or it was stopped. */
  run(until: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const step = () => {
        try {
          if (!this.happen(until)) {
            this.time = Math.max(this.time, this.stopped ? this.time : until);
            resolve();
            return;
          }
        } catch (error) {
          reject(error);
          return;
        }
        afterAllTurns(step);
      };
      afterAllTurns(step);
    });
  }

  /** The next event; false when there is none. */
  private happen(until: number): boolean {
    while (this.queue.length > 0 && !this.stopped) {
      const event = this.queue[0] as Event;
      if (event.at > until) return false;
      this.pop();
      if (event.cancelled || event.owner?.alive === false) continue;
      if (event.owner && event.owner.pausedUntil > event.at) {
        this.postpone(event, event.owner);
        continue;
      }
      this.time = Math.max(this.time, event.at);
      this.steps += 1;
      if (this.steps > MAX_STEPS) throw new Error(`more than ${MAX_STEPS} steps: something never ends`);
      this.mix(event.order);
      this.mix(this.time * 4096);
      this.note(event.label);
      event.run();
      return true;
    }
    return false;
  }

  private postpone(event: Event, owner: Process): void {
    const late = owner.wakesInOrder ? Math.max(0, event.at - owner.pausedSince) * MOMENT : 0;
    event.at = owner.pausedUntil + late;
    this.push(event);
  }

  /** FNV-1a, a number at a time. */
  private mix(value: number): void {
    this.digest = Math.imul(this.digest ^ (value | 0), 0x01000193) >>> 0;
  }

  /** A binary heap: a seed has thousands of events, most of them soon over. */
  private push(event: Event): void {
    const { queue } = this;
    let index = queue.length;
    queue.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, queue[parent] as Event)) break;
      queue[index] = queue[parent] as Event;
      index = parent;
    }
    queue[index] = event;
  }

  private pop(): void {
    const { queue } = this;
    const last = queue.pop() as Event;
    if (queue.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= queue.length) break;
      if (child + 1 < queue.length && isBefore(queue[child + 1] as Event, queue[child] as Event)) child += 1;
      if (!isBefore(queue[child] as Event, last)) break;
      queue[index] = queue[child] as Event;
      index = child;
    }
    queue[index] = last;
  }
}

/** FNV-1a. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash;
}

function scramble(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return once ^ (once >>> 13);
}

function isBefore(one: Event, other: Event): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
