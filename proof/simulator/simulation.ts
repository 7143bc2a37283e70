import { type Random, seededRandom } from '../../test/support/random.js';

/** Far more than any seed takes: reaching it means that something never ends. */
const MAX_STEPS = 200_000;

interface Event {
  at: number;
  /** Events of one moment happen in the order in which they were made. */
  readonly order: number;
  readonly label: string;
  readonly actor: Actor | undefined;
  readonly run: () => void;
  cancelled: boolean;
}

/** Somebody whom things happen to: an instance of the service, or a client. What is dead or stopped notices nothing. */
export interface Actor {
  readonly name: string;
  alive: boolean;
  /** By the simulation's time: everything that would reach it before arrives then, in the order it would have. */
  pausedUntil: number;
}

/**
 * One simulated history. Time is a number; every step of the stores, the network, the timers and the clients is an event,
 * and what runs between two events is the real code. One seed decides everything, so a seed is a history.
 */
export class Simulation {
  /** Milliseconds since the beginning. */
  time = 0;
  steps = 0;
  readonly random: Random;
  /** A digest of every event so far: two runs of one seed must end with the same. */
  digest = 0x811c9dc5;
  private readonly queue: Event[] = [];
  private made = 0;
  private readonly lines: string[] | undefined;

  constructor(seed: number, options: { trace?: boolean } = {}) {
    this.random = seededRandom(seed);
    this.lines = options.trace ? [] : undefined;
  }

  get trace(): readonly string[] {
    return this.lines ?? [];
  }

  /** Something that happens to `actor` (or to nobody who could be dead or stopped) `ms` from now. */
  after(ms: number, label: string, actor: Actor | undefined, run: () => void): () => void {
    const event: Event = {
      at: this.time + Math.max(0, ms),
      order: this.made++,
      label,
      actor,
      run,
      cancelled: false,
    };
    this.push(event);
    return () => {
      event.cancelled = true;
    };
  }

  /** A line of the history that is no event of its own. */
  note(text: string): void {
    this.mix(text);
    this.lines?.push(`${this.time.toFixed(1).padStart(10)}  ${text}`);
  }

  /** Runs until `until` (time) has come or nothing is left to happen. */
  async run(until: number): Promise<void> {
    while (this.queue.length > 0) {
      const event = this.queue[0] as Event;
      if (event.at > until) break;
      this.pop();
      if (event.cancelled || event.actor?.alive === false) continue;
      if (event.actor && event.actor.pausedUntil > event.at) {
        event.at = event.actor.pausedUntil;
        this.push(event);
        continue;
      }
      this.time = event.at;
      this.steps += 1;
      if (this.steps > MAX_STEPS) throw new Error(`more than ${MAX_STEPS} steps: something never ends`);
      if (event.label !== '') this.note(event.label);
      event.run();
      // Whatever the event set going runs until it waits for another event.
      await new Promise(setImmediate);
    }
    this.time = Math.max(this.time, until);
  }

  /** FNV-1a over the texts of the events and their times. */
  private mix(text: string): void {
    let digest = this.digest;
    const line = `${this.time}${text}`;
    for (let index = 0; index < line.length; index += 1) {
      digest = Math.imul(digest ^ line.charCodeAt(index), 0x01000193);
    }
    this.digest = digest >>> 0;
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

function isBefore(one: Event, other: Event): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
