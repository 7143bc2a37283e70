import type { Clock } from '#idempay/clock.js';
import { StoreUnavailable } from '#idempay/faults.js';
import type { Random } from '../../testkit/random.js';
import { createInstanceClock, newActor, type WallClock } from './instance.js';
import type { Actor, Simulation } from './simulation.js';

/** A client's way to an instance and back, at most. */
const CLIENT_WAY_MS = 10;
/** What could not be opened is started again, as a supervisor does. */
const START_AGAIN_MS = 1_000;

/** No answer at all ('cut'), or the 503 of a store that could not be had and what became of the write. */
export type NoAnswer = 'cut' | 'refused unchanged' | 'refused unknown';

interface Member<Service> {
  readonly actor: Actor;
  /** Undefined until it is open. */
  service: Service | undefined;
  /** Cuts the connections of all who wait for an answer. */
  readonly waiting: Set<() => void>;
}

export type OpenService<Service> = (actor: Actor, clock: Clock) => Promise<Service>;

/** The instances of the service, what can happen to them, and the clients' way to them. */
export class Fleet<Service> {
  readonly clients = newActor('clients', -1);
  /** Exceptions that are no fault of a store: bugs. */
  readonly bugs: string[] = [];
  readonly walls: readonly WallClock[];
  private readonly members: Member<Service>[] = [];
  private births = 0;
  private readonly pausedBefore: number[] = [];

  constructor(
    private readonly simulation: Simulation,
    readonly size: number,
    private readonly openService: OpenService<Service>,
  ) {
    this.walls = Array.from({ length: size }, () => ({ aheadMs: 0 }));
  }

  start(): void {
    for (let index = 0; index < this.size; index += 1) this.members[index] = this.begin(index);
  }

  private begin(index: number): Member<Service> {
    this.births += 1;
    this.pausedBefore[index] = (this.pausedBefore[index] ?? 0) + (this.members[index]?.actor.pausedMs ?? 0);
    const actor = newActor(`i${index}.${this.births}`, index);
    const clock = createInstanceClock(this.simulation, actor, this.walls[index] as WallClock, 1_000 * this.births);
    const member: Member<Service> = { actor, service: undefined, waiting: new Set() };
    this.openService(actor, clock).then(
      (service) => {
        member.service = service;
      },
      (fault: unknown) => {
        if (!(fault instanceof StoreUnavailable)) this.bugs.push(String(fault));
        actor.alive = false;
        this.startLater(index, START_AGAIN_MS);
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
    if (!member.actor.alive) return;
    this.simulation.count('crashes');
    member.actor.pausedMs -= this.stopStillToCome(member.actor);
    member.actor.alive = false;
    for (const cut of member.waiting) cut();
    this.startLater(index, forMs);
  }

  /** As SIGSTOP does, until SIGCONT. */
  pause(index: number, forMs: number, wakesInOrder: boolean): void {
    const { actor } = this.members[index] as Member<Service>;
    const { time } = this.simulation;
    if (!actor.alive) return;
    this.simulation.count('pauses');
    const until = Math.max(actor.pausedUntil, time + forMs);
    if (actor.pausedUntil <= time) Object.assign(actor, { pausedSince: time, wakesInOrder });
    actor.pausedMs += until - Math.max(actor.pausedUntil, time);
    actor.pausedUntil = until;
  }

  /** All that is left ends here. */
  end(): void {
    for (const { actor } of this.members) actor.alive = false;
  }

  indexes(): readonly number[] {
    return this.members.map((_, index) => index);
  }

  /** How long an instance, and those that were it before, have been stopped until now. */
  pausedMs(index: number): number {
    const { actor } = this.members[index] as Member<Service>;
    const stillToComeMs = actor.alive ? this.stopStillToCome(actor) : 0;
    return (this.pausedBefore[index] ?? 0) + actor.pausedMs - stillToComeMs;
  }

  private stopStillToCome({ pausedUntil }: Actor): number {
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
    const wayMs = () => 1 + random.fraction() * CLIENT_WAY_MS;
    let open = true;
    const answer = (value: T | NoAnswer) => {
      if (!open) return;
      open = false;
      simulation.after(wayMs(), clients, () => give(value));
    };
    simulation.arrive(wayMs(), undefined, () => {
      const member = this.members[index] as Member<Service>;
      const { actor, service } = member;
      const cut = () => answer('cut');
      if (!actor.alive || !service) return cut();
      member.waiting.add(cut);
      const begin = () => {
        work(service, actor.name)
          .then(answer, (fault: unknown) => answer(this.refusalOf(fault, what)))
          .finally(() => member.waiting.delete(cut));
      };
      simulation.after(0, actor, begin, simulation.tracing ? `${actor.name} is asked to ${what}` : '');
    });
  }

  private refusalOf(fault: unknown, what: string): NoAnswer {
    if (fault instanceof StoreUnavailable) return `refused ${fault.effect}`;
    this.bugs.push(`${what}: ${fault}`);
    return 'refused unknown';
  }
}
