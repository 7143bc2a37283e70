import { type Random, seededRandom } from '../../testkit/random.js';

/**
 * Three times what the busiest seeds take: with retention, webhooks and readers, three processes poll for 20 minutes of simulated time, in
 * 130 steps a second. Reaching it means that something never ends.
 */
const MAX_STEPS = 500_000;
/** Scales the delays of events that waited for a stopped instance: their order stays, but they come almost at once. */
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

/** A receiver of events: an instance of the service, or a client. While it is dead or stopped it receives nothing. */
export class Process {
  alive = true;
  /** By the simulation's time: everything that would reach it before arrives then. */
  pausedUntil = 0;
  pausedSince = 0;
  /**
   * True if the events that wait for it come in the order of time; else the event that it waited for first comes first, timers before
   * replies.
   */
  wakesInOrder = false;

  constructor(
    readonly name: string,
    /** The index of the instance, which restarts keep. */
    readonly index: number,
    /** How long the instance has been stopped in all, by the end of the latest stop. */
    public pausedMs = 0,
  ) {}
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
  readonly trace: string[] = [];
  readonly counts = new Map<string, number>();
  /** In order, the next one last. */
  private readonly queue: Event[] = [];
  private made = 0;
  private stopped = false;

  constructor(
    private readonly seed: number,
    private readonly tracing: boolean,
  ) {
    watchImmediates();
  }

  /** A stream of choices of its own: what is chosen for one name does not depend on what happens to any other. */
  stream(name: string): Random {
    return seededRandom(scramble(hashOf(name) ^ this.seed));
  }

  /**
   * Choices for one thing that happens now. They depend only on the name and the moment, so they stay the same when something
   * else is left out of the history.
   */
  rng(name: string): Random {
    return seededRandom(scramble(scramble(hashOf(name) ^ this.seed) ^ Math.imul(this.time * 65_536, 0x9e3779b1)));
  }

  /** Schedules an event in `ms`. Without `owner` it happens also while instances are dead or stopped. */
  after(ms: number, owner: Process | undefined, run: () => void, label = ''): () => void {
    const event: Event = { at: this.time + Math.max(0, ms), order: this.made++, owner, run, label, cancelled: false };
    this.push(event);
    return () => {
      event.cancelled = true;
    };
  }

  wait(ms: number, owner?: Process, label?: string): Promise<void> {
    return new Promise((resolve) => this.after(ms, owner, resolve, label));
  }

  /** Schedules the arrival of a message at a store, which keeps the data. */
  arrive(ms: number, owner: Process | undefined, run: () => void, label = ''): void {
    this.busyUntil = Math.max(this.busyUntil, this.time + ms);
    this.after(ms, owner, run, label);
  }

  /** A line of the trace that is no event of its own. '' is none. */
  note(text: string): void {
    if (this.tracing && text !== '') this.trace.push(`${this.time.toFixed(1).padStart(10)}  ${text}`);
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** Makes something that is no event part of the history's digest. */
  witness(text: string): void {
    for (let index = 0; index < text.length; index += 1) this.mix(text.charCodeAt(index));
  }

  stop(): void {
    this.stopped = true;
  }

  /** Runs until `until` (time) has come, nothing is left to happen, or it was stopped. */
  async run(until: number): Promise<void> {
    do await allTurns();
    while (this.happen(until));
    if (!this.stopped) this.time = Math.max(this.time, until);
  }

  /** The next event; false when there is none. */
  private happen(until: number): boolean {
    for (let event = this.queue.at(-1); event && !this.stopped && event.at <= until; event = this.queue.at(-1)) {
      this.queue.pop();
      const { owner } = event;
      if (event.cancelled || owner?.alive === false) continue;
      if (owner && owner.pausedUntil > event.at) {
        const lateMs = owner.wakesInOrder ? Math.max(0, event.at - owner.pausedSince) * MOMENT : 0;
        event.at = owner.pausedUntil + lateMs;
        this.push(event);
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

  /** FNV-1a, a number at a time. */
  private mix(value: number): void {
    this.digest = Math.imul(this.digest ^ (value | 0), 0x01000193) >>> 0;
  }

  private push(event: Event): void {
    const { queue } = this;
    const isLater = ({ at, order }: Event) => at > event.at || (at === event.at && order > event.order);
    queue.splice(queue.findLastIndex(isLater) + 1, 0, event);
  }
}

const hashOf = (text: string) =>
  [...text].reduce((hash, character) => Math.imul(hash ^ character.charCodeAt(0), 0x01000193), 0x811c9dc5);

function scramble(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return once ^ (once >>> 13);
}

const real = { setImmediate: globalThis.setImmediate, clearImmediate: globalThis.clearImmediate };
const outstanding = new Set<NodeJS.Immediate>();

/**
 * The real code may wait for a turn of the event loop itself, during which no time passes. From the first call on all such turns are known,
 * so that time goes on when the last has been had, and not before.
 */
function watchImmediates(): void {
  if (globalThis.setImmediate !== real.setImmediate) return;
  const watched = (callBack: (...given: unknown[]) => void, ...given: unknown[]) => {
    const immediate = real.setImmediate(() => {
      outstanding.delete(immediate);
      callBack(...given);
    });
    outstanding.add(immediate);
    return immediate;
  };
  const { __promisify__ } = real.setImmediate;
  globalThis.setImmediate = Object.assign(watched, { __promisify__ }) as typeof setImmediate;
  globalThis.clearImmediate = (immediate) => {
    if (immediate) outstanding.delete(immediate);
    real.clearImmediate(immediate);
  };
}

/** Resolves when nothing waits for a microtask, a tick or a turn any more. */
const allTurns = () =>
  new Promise<void>((resolve) => {
    // From a microtask, a tick comes when no microtask is left: whatever was set going has run until it waits.
    const lookLater = () => queueMicrotask(() => process.nextTick(look));
    const look = () => void (outstanding.size === 0 ? resolve() : real.setImmediate(lookLater));
    lookLater();
  });
