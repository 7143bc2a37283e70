import type { Clock } from '#idempay/clock.js';
import { StoreUnavailable } from '#idempay/faults.js';
import type { Random } from '../../testkit/random.js';
import { EPOCH_MS } from './payments/keys.js';
import type { Process, Simulation } from './simulation.js';

/** A client's request and its answer take this long, at most. */
const CLIENT_LATENCY_MS = 10;
/** What could not be opened is started again, as a supervisor does. */
const RESTART_MS = 1_000;
/** As `app.ts` drains: requests have this long, and then what their attempts still write. */
const DRAIN_LIMIT_MS = 25_000;
const LAST_WRITES_MS = 1_000;

/** A machine's wall clock; the clocks of one machine are wrong together. */
export interface WallClock {
  aheadMs: number;
}

/** No answer at all ('cut'), or the 503 of a store that could not be had and what became of the write. */
export type NoAnswer = 'cut' | 'refused unchanged' | 'refused unknown';

export function isNoAnswer(answer: unknown): answer is NoAnswer | undefined {
  return answer === undefined || answer === 'cut' || answer === 'refused unchanged' || answer === 'refused unknown';
}

/** What a process serves, and how it stops: in the order of `app.ts`. */
export interface Opened<Service> {
  readonly service: Service;
  /** No request waits any more for what it would have to wait long for; what runs in the background ends. */
  stop(): Promise<unknown>;
  /** The limit is over: what waits for the processor is unknown. */
  cut(): void;
  /** The last thing. */
  end(): Promise<unknown>;
}

interface Member<Service> {
  readonly process: Process;
  /** Undefined until it is open. */
  opened: Opened<Service> | undefined;
  isDraining: boolean;
  /** Cuts the connections of all clients that wait for an answer. */
  readonly waiting: Set<() => void>;
}

export type OpenService<Service> = (process: Process, clock: Clock) => Promise<Opened<Service>>;

/** The processes of the service, what can happen to them, and the clients' way to them. */
export class Processes<Service> {
  readonly clients = newProcess('clients', -1);
  /** Exceptions that are no fault of a store: bugs. */
  readonly bugs: string[] = [];
  readonly walls: readonly WallClock[];
  private readonly members: Member<Service>[] = [];
  private births = 0;
  private readonly pausedBefore: number[] = [];

  constructor(
    private readonly simulation: Simulation,
    readonly size: number,
    private readonly open: OpenService<Service>,
  ) {
    this.walls = Array.from({ length: size }, () => ({ aheadMs: 0 }));
  }

  start(): void {
    for (let index = 0; index < this.size; index += 1) this.members[index] = this.begin(index);
  }

  private begin(index: number): Member<Service> {
    this.births += 1;
    this.pausedBefore[index] = (this.pausedBefore[index] ?? 0) + (this.members[index]?.process.pausedMs ?? 0);
    const process = newProcess(`i${index}.${this.births}`, index);
    const bornAheadMs = 1_000 * this.births;
    const wall = this.walls[index] as WallClock;
    const { simulation } = this;
    const clock: Clock = {
      now: () => Math.floor(EPOCH_MS + simulation.time + wall.aheadMs),
      monotonic: () => simulation.time + bornAheadMs,
      after: (ms, callBack) => simulation.after(ms, process, callBack),
    };
    const member: Member<Service> = { process, opened: undefined, isDraining: false, waiting: new Set() };
    this.open(process, clock).then(
      (opened) => {
        member.opened = opened;
      },
      (fault: unknown) => {
        if (!(fault instanceof StoreUnavailable)) this.bugs.push(String(fault));
        process.alive = false;
        this.startLater(index, RESTART_MS);
      },
    );
    return member;
  }

  private startLater(index: number, ms: number): void {
    const start = () => {
      this.members[index] = this.begin(index);
    };
    this.simulation.after(ms, undefined, start, `i${index} starts`);
  }

  /** As kill -9 does; whoever waits for an answer is cut off. */
  crash(index: number, forMs: number): void {
    const member = this.members[index] as Member<Service>;
    if (!member.process.alive) return;
    this.simulation.count('crashes');
    member.process.pausedMs -= this.stopStillToCome(member.process);
    member.process.alive = false;
    for (const cut of member.waiting) cut();
    this.startLater(index, forMs);
  }

  /** As SIGTERM does: it takes no request more, answers those under way, ends its rounds, and is started again. */
  drain(index: number, forMs: number): void {
    const { simulation } = this;
    const member = this.members[index] as Member<Service>;
    const { process, opened, waiting } = member;
    if (!process.alive || !opened || member.isDraining) return;
    simulation.count('drains');
    member.isDraining = true;
    let isOver = false;
    const finish = () => {
      if (isOver || !process.alive) return;
      isOver = true;
      opened.end().then(() => {
        if (!process.alive) return;
        if (waiting.size > 0) simulation.count('drains that were cut');
        for (const cut of waiting) cut();
        process.alive = false;
        simulation.note(`${process.name} has drained`);
        this.startLater(index, forMs);
      });
    };
    const background = opened.stop();
    const look = () => {
      if (waiting.size === 0) background.then(finish);
      else if (!isOver) simulation.after(100, process, look);
    };
    look();
    simulation.after(DRAIN_LIMIT_MS, process, () => {
      opened.cut();
      simulation.after(LAST_WRITES_MS, process, finish);
    });
  }

  /** As SIGSTOP does, until SIGCONT. */
  pause(index: number, forMs: number, wakesInOrder: boolean): void {
    const { process } = this.members[index] as Member<Service>;
    const { time } = this.simulation;
    if (!process.alive) return;
    this.simulation.count('pauses');
    const until = Math.max(process.pausedUntil, time + forMs);
    if (process.pausedUntil <= time) Object.assign(process, { pausedSince: time, wakesInOrder });
    process.pausedMs += until - Math.max(process.pausedUntil, time);
    process.pausedUntil = until;
  }

  /** All that is left ends here. */
  end(): void {
    for (const { process } of this.members) process.alive = false;
  }

  indexes(): readonly number[] {
    return this.members.map((_, index) => index);
  }

  /** How long an process, and those that were it before, have been stopped until now. */
  pausedMs(index: number): number {
    const { process } = this.members[index] as Member<Service>;
    const stillToComeMs = process.alive ? this.stopStillToCome(process) : 0;
    return (this.pausedBefore[index] ?? 0) + process.pausedMs - stillToComeMs;
  }

  private stopStillToCome({ pausedUntil }: Process): number {
    return Math.max(0, pausedUntil - this.simulation.time);
  }

  /** One request of a client over the network; `give` hears the answer, or that there is none. */
  call<T>(
    index: number,
    random: Random,
    what: string,
    work: (service: Service, name: string) => Promise<T>,
    give: (answer: T | NoAnswer) => void,
  ): void {
    const { simulation, clients } = this;
    const latencyMs = () => 1 + random.fraction() * CLIENT_LATENCY_MS;
    let open = true;
    const answer = (value: T | NoAnswer) => {
      if (!open) return;
      open = false;
      simulation.after(latencyMs(), clients, () => give(value));
    };
    simulation.arrive(latencyMs(), undefined, () => {
      const member = this.members[index] as Member<Service>;
      const { process, opened } = member;
      const cut = () => answer('cut');
      if (!process.alive || !opened || member.isDraining) return cut();
      member.waiting.add(cut);
      const begin = () => {
        work(opened.service, process.name)
          .then(answer, (fault: unknown) => answer(this.refusalOf(fault, what)))
          .finally(() => member.waiting.delete(cut));
      };
      simulation.after(0, process, begin, simulation.tracing ? `${process.name} is asked to ${what}` : '');
    });
  }

  private refusalOf(fault: unknown, what: string): NoAnswer {
    if (fault instanceof StoreUnavailable) return `refused ${fault.effect}`;
    this.bugs.push(`${what}: ${fault}`);
    return 'refused unknown';
  }
}

function newProcess(name: string, index: number): Process {
  return { name, index, alive: true, pausedUntil: 0, pausedSince: 0, pausedMs: 0, wakesInOrder: false };
}
