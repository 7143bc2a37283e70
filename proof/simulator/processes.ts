import type { Clock } from '#idempay/platform/clock.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import type { Random } from '../../testkit/random.js';
import { EPOCH_MS } from './payments/keys.js';
import { Process, type Simulation } from './simulation.js';

/** A client's request and its answer take this long, at most. */
const CLIENT_LATENCY_MS = 10;
/** A process that could not be opened is started again, as by a supervisor. */
const RESTART_MS = 1_000;
/** As `app.ts` drains: requests have this long, and then what their attempts still write. */
const DRAIN_LIMIT_MS = 25_000;
const LAST_WRITES_MS = 1_000;

/** A machine's wall clock; the clocks of one machine are wrong together. */
export type WallClock = { aheadMs: number };

/** No answer at all ('cut'), or the 503 of a store that could not be had and what became of the write. */
export type NoAnswer = 'cut' | 'refused unchanged' | 'refused unknown';

export const isNoAnswer = (answer: unknown): answer is NoAnswer | undefined =>
  answer === undefined || answer === 'cut' || answer === 'refused unchanged' || answer === 'refused unknown';

export interface Request<Answer> {
  readonly sentAt: number;
  answeredAt?: number;
  /** Undefined while it waits. */
  answer?: Answer | NoAnswer;
}

/** The services of a process, and its stop: in the order of `app.ts`. */
export interface Opened<Service> {
  readonly service: Service;
  /** Ends the long waits of requests, and the work in the background. */
  stop(): Promise<unknown>;
  /** The limit is over: what waits for the processor is unknown. */
  cut(): void;
  end(): Promise<unknown>;
}

class Member<Service> extends Process {
  /** Undefined until it is open. */
  opened?: Opened<Service>;
  openedAt = Infinity;
  isDraining = false;
  /** Cuts the connections of all clients that wait for an answer. */
  readonly waiting = new Set<() => void>();
}

/** The processes of the service, what can happen to them, and the clients' way to them. */
export class Processes<Service> {
  readonly clients = new Process('clients', -1);
  /** Exceptions that are no fault of a store: bugs. */
  readonly bugs: string[] = [];
  readonly indexes: readonly number[];
  readonly walls: readonly WallClock[];
  private readonly members: Member<Service>[] = [];
  private births = 0;

  constructor(
    private readonly simulation: Simulation,
    readonly size: number,
    private readonly open: (process: Process, clock: Clock) => Promise<Opened<Service>>,
  ) {
    this.indexes = Array.from({ length: size }, (_, index) => index);
    this.walls = this.indexes.map(() => ({ aheadMs: 0 }));
  }

  start(): void {
    for (const index of this.indexes) this.begin(index);
  }

  private begin(index: number): void {
    const { simulation } = this;
    this.births += 1;
    const process = new Member<Service>(`i${index}.${this.births}`, index, this.members[index]?.pausedMs);
    this.members[index] = process;
    const bornAheadMs = 1_000 * this.births;
    const wall = this.walls[index] as WallClock;
    const clock: Clock = {
      now: () => Math.floor(EPOCH_MS + simulation.time + wall.aheadMs),
      monotonic: () => simulation.time + bornAheadMs,
      after: (ms, callBack) => simulation.after(ms, process, callBack),
    };
    const restart = (fault: unknown) => {
      if (!(fault instanceof StoreUnavailable)) this.bugs.push(String(fault));
      this.restart(process, RESTART_MS);
    };
    const open = (opened: Opened<Service>) => Object.assign(process, { opened, openedAt: simulation.time });
    this.open(process, clock).then(open, restart);
  }

  private restart(process: Process, afterMs: number): void {
    process.alive = false;
    this.simulation.after(afterMs, undefined, () => this.begin(process.index), `i${process.index} starts`);
  }

  /** As kill -9 does; waiting clients are disconnected. */
  crash(index: number, forMs: number): void {
    const process = this.memberOf(index);
    if (!process.alive) return;
    this.simulation.count('crashes');
    process.pausedMs = this.pausedMs(index);
    process.alive = false;
    for (const cut of process.waiting) cut();
    this.restart(process, forMs);
  }

  /** As SIGTERM does: it takes no request more, answers those under way, ends its rounds, and is started again. */
  drain(index: number, forMs: number): void {
    const { simulation } = this;
    const process = this.memberOf(index);
    const { opened, waiting } = process;
    if (!process.alive || !opened || process.isDraining) return;
    simulation.count('drains');
    process.isDraining = true;
    let isOver = false;
    const finish = async () => {
      if (isOver || !process.alive) return;
      isOver = true;
      await opened.end();
      if (!process.alive) return;
      if (waiting.size > 0) simulation.count('drains that were cut');
      for (const cut of waiting) cut();
      simulation.note(`${process.name} has drained`);
      this.restart(process, forMs);
    };
    const untilAnswered = async () => {
      const background = opened.stop();
      while (waiting.size > 0 && !isOver) await simulation.wait(100, process);
      await background;
      await finish();
    };
    untilAnswered();
    simulation.after(DRAIN_LIMIT_MS, process, () => {
      opened.cut();
      simulation.after(LAST_WRITES_MS, process, finish);
    });
  }

  /** As SIGSTOP does, until SIGCONT. */
  pause(index: number, forMs: number, wakesInOrder: boolean): void {
    const process = this.memberOf(index);
    const { time } = this.simulation;
    if (!process.alive) return;
    this.simulation.count('pauses');
    const until = Math.max(process.pausedUntil, time + forMs);
    if (process.pausedUntil <= time) Object.assign(process, { pausedSince: time, wakesInOrder });
    process.pausedMs += until - Math.max(process.pausedUntil, time);
    process.pausedUntil = until;
  }

  /** Since when the oldest of the processes has been open; Infinity if none is. */
  openSince(): number {
    return Math.min(...this.members.map(({ alive, openedAt }) => (alive ? openedAt : Infinity)));
  }

  /** False from the end of a process until it is started again. */
  areAlive(): boolean {
    return this.members.every(({ alive }) => alive);
  }

  end(): void {
    for (const process of this.members) process.alive = false;
  }

  /** How long a process, and those that were it before, have been stopped until now. */
  pausedMs(index: number): number {
    const { alive, pausedMs, pausedUntil } = this.memberOf(index);
    return pausedMs - (alive ? Math.max(0, pausedUntil - this.simulation.time) : 0);
  }

  /** One request of a client over the network: its answer, or that there is none. */
  call<T>(index: number, random: Random, what: string, work: (service: Service) => Promise<T>): Promise<T | NoAnswer> {
    const { simulation, clients } = this;
    const latencyMs = () => 1 + random.fraction() * CLIENT_LATENCY_MS;
    return new Promise((resolve) => {
      let open = true;
      const answer = (value: T | NoAnswer) => {
        if (open) simulation.after(latencyMs(), clients, () => resolve(value));
        open = false;
      };
      simulation.arrive(latencyMs(), undefined, () => {
        const process = this.memberOf(index);
        const { opened, waiting, name } = process;
        const cut = () => answer('cut');
        if (!process.alive || !opened || process.isDraining) return cut();
        waiting.add(cut);
        const refuse = (fault: unknown) => {
          const isRefused = fault instanceof StoreUnavailable;
          if (!isRefused) this.bugs.push(`${what}: ${fault}`);
          answer(`refused ${isRefused ? fault.effect : 'unknown'}`);
        };
        const begin = () =>
          void work(opened.service)
            .then(answer, refuse)
            .finally(() => waiting.delete(cut));
        simulation.after(0, process, begin, `${name} is asked to ${what}`);
      });
    });
  }

  /** Work of a process that no client waits for over the network, without a line in a trace; undefined if it fails, or the process ends. */
  look<T>(index: number, work: (service: Service) => Promise<T>): Promise<T | undefined> {
    const process = this.memberOf(index);
    const { opened, waiting } = process;
    return new Promise((resolve) => {
      const cut = () => resolve(undefined);
      if (!process.alive || !opened || process.isDraining) return cut();
      waiting.add(cut);
      const begin = () =>
        void work(opened.service)
          .then(resolve, cut)
          .finally(() => waiting.delete(cut));
      this.simulation.after(0, process, begin);
    });
  }

  private memberOf(index: number): Member<Service> {
    return this.members[index] as Member<Service>;
  }
}
