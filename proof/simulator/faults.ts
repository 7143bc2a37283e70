import type { Random } from '../../testkit/random.js';
import type { NetworkConditions } from './network.js';
import { nameOf } from './payments/keys.js';
import { type ProcessorBehaviour, type SimulatedProcessor, WELL } from './payments/processor.js';
import type { Processes } from './processes.js';
import type { Process, Simulation } from './simulation.js';
import { type Interval, type ServerName, STATEMENT_DEADLINE_MS, type Stores } from './stores.js';

/** A fault at a step: at an operation on one subject, whichever process asks for it. */
interface Trigger<Subject> {
  readonly subject: Subject;
  /** The n-th one, or the first one at or after a time. */
  readonly operation: number | { readonly notBefore: number };
  /** When its caller has just sent it, or the server has just done it and its reply is not sent yet. */
  readonly point: 'sent' | 'done';
  /** Only at an operation whose name begins so. */
  readonly only?: string | undefined;
}

/** What becomes of the next message: it is lost, or late by some milliseconds. */
type MessageFault = 'lost' | number | undefined;

/** By the time, or at a step of whichever process is at work on a subject: a client's key, or a transaction, by its number. */
type Moment = { readonly at: number } | Trigger<number>;

/** A process by its index, or the one whose step triggered the fault. */
type Target = number | 'caller';

export type FaultKind =
  | { readonly kind: 'crash' | 'drain'; readonly target: Target; readonly forMs: number }
  | { readonly kind: 'pause'; readonly target: Target; readonly forMs: number; readonly wakesInOrder: boolean }
  /** It wakes only to die. */
  | { readonly kind: 'pause and crash'; readonly target: Target; readonly forMs: number; readonly thenMs: number }
  /** The next message is lost. */
  | { readonly kind: 'cut' }
  /** It is late. */
  | { readonly kind: 'delay'; readonly forMs: number }
  /** FLUSHALL: the server goes on under its old name. */
  | { readonly kind: 'flush' }
  | { readonly kind: 'evict'; readonly what: 'record' | 'lock' | 'entry' | 'token' | 'marks'; readonly of: number }
  /** After `forMs` a replica takes over that has heard of nothing since now: the server has another name. */
  | { readonly kind: 'failover'; readonly forMs: number }
  | {
      readonly kind: 'network';
      readonly server: ServerName;
      readonly of: number | 'all';
      readonly conditions: NetworkConditions;
      readonly forMs: number;
    }
  | { readonly kind: 'slow commits' | 'no room for fills'; readonly forMs: number }
  | { readonly kind: 'processor'; readonly behaviour: ProcessorBehaviour; readonly forMs: number }
  | { readonly kind: 'clock'; readonly of: number | ServerName; readonly aheadMs: number }
  | { readonly kind: 'operator'; readonly of: number };

export type Fault = Moment & FaultKind;

/** A plan: everything that a seed sets in motion, before anything has happened. A smaller plan is a simpler history. */
export interface Faulty {
  readonly seed: number;
  readonly faults: readonly Fault[];
}

/** A caller whose message was lost has noticed by then. */
const LOSS_NOTICED_MS = STATEMENT_DEADLINE_MS + 1_000;

/** What is forgotten of a subject, by the end of its name in Redis. */
const SUFFIXES = { record: '}', lock: '}:lock', entry: '}', token: '}:fill', marks: '}:marks' } as const;

interface FaultSettings {
  /** Nothing is injected after this. */
  readonly endMs: number;
  /** As long as a lock or a lease that was left behind may stand. */
  readonly leaseMs: number;
  /** What a subject of the plan is called. */
  nameOf(subject: number): string;
  readonly processor?: SimulatedProcessor;
  /** An operator makes up their mind about a payment. */
  resolve?(subject: number): void;
}

type CarryOut = { [Kind in FaultKind['kind']]: (fault: Extract<FaultKind, { readonly kind: Kind }>) => unknown };

/** Injects the faults of a plan, and remembers what a checker must know of them. */
export class Faults {
  /** When Redis forgot something of a key (or of all: undefined), or a clock that judges expiry was moved. */
  private readonly forgot: { readonly at: number; readonly key: string | undefined }[] = [];
  readonly storeSetAhead: number[] = [];
  /** Whether the clock of a server was, that judges when something expires. */
  clockWasMoved = false;
  /** When servers or networks were not well. */
  private readonly unwell: Interval[] = [];
  /** When anything at all was wrong, and as long as it may be felt. */
  private readonly disturbed: Interval[] = [];
  private clocksMovedByMs = 0;

  constructor(
    private readonly simulation: Simulation,
    private readonly triggered: TriggeredFaults,
    private readonly processes: Processes<unknown>,
    private readonly stores: Stores,
    private readonly settings: FaultSettings,
  ) {}

  plan({ faults }: Faulty): void {
    for (const fault of faults) {
      if ('at' in fault) this.simulation.after(fault.at, undefined, () => void this.inject(fault, undefined));
      else {
        const subject = this.settings.nameOf(fault.subject);
        this.triggered.plan({ ...fault, subject }, (caller) => this.inject(fault, caller));
      }
    }
  }

  /** Every network is good, and every server well. */
  end(): void {
    const { links, conditions } = this.stores;
    for (const link of [links.redis, links.postgres]) link.restore();
    Object.assign(conditions, { slowCommits: 0, noRoom: 0 });
    if (this.settings.processor) this.settings.processor.behaviour = WELL;
  }

  private inject(fault: FaultKind, caller: Process | undefined): MessageFault {
    const { simulation, processes, stores, settings } = this;
    const remainingMs = settings.endMs - simulation.time;
    if (remainingMs <= 0) return undefined;
    simulation.note(`FAULT ${JSON.stringify(fault)}`);
    const forMs = 'forMs' in fault ? Math.min(fault.forMs, remainingMs) : 0;
    const target = 'target' in fault && fault.target !== 'caller' ? fault.target : (caller?.index ?? 0);
    this.disturb(fault);
    const carryOut: CarryOut = {
      crash: () => processes.crash(target, forMs),
      drain: () => processes.drain(target, forMs),
      pause: ({ wakesInOrder }) => processes.pause(target, forMs, wakesInOrder),
      'pause and crash': ({ thenMs }) => {
        processes.pause(target, forMs, true);
        simulation.after(forMs + thenMs, undefined, () => processes.crash(target, 0), `i${target} dies`);
      },
      cut: () => this.beUnwell(LOSS_NOTICED_MS),
      delay: (late) => this.beUnwell(LOSS_NOTICED_MS + late.forMs),
      flush: () => this.forget(undefined, () => stores.redis?.forget()),
      evict: ({ what, of }) => {
        const subject = settings.nameOf(of);
        const forget = () => stores.redis?.forget((name) => isPartOf(subject, SUFFIXES[what], name));
        this.forget(what === 'lock' ? 'no record' : subject, forget);
      },
      failover: () => {
        const promote = stores.redis?.copy();
        this.forgot.push({ at: simulation.time, key: undefined });
        const failOver = () => this.forget(undefined, () => promote?.());
        simulation.after(forMs, undefined, failOver, 'a replica takes the place of redis');
      },
      network: ({ of, server, conditions, forMs: ms }) => {
        const restore = stores.links[server].setConditions(of === 'all' ? processes.indexes : [of], conditions);
        simulation.count('network conditions');
        // Others of the same process may have to wait until the caller of a lost message has noticed.
        this.beUnwell(forMs + LOSS_NOTICED_MS);
        simulation.after(ms, undefined, restore);
      },
      'slow commits': (slow) => this.while(slow, 'slowCommits', 0.5),
      'no room for fills': (full) => this.while(full, 'noRoom', 1),
      processor: ({ behaviour, forMs: ms }) => {
        const { processor } = settings;
        if (!processor) return;
        processor.behaviour = behaviour;
        simulation.count('bad behaviour of the processor');
        this.beUnwell(forMs);
        simulation.after(ms, undefined, () => {
          if (processor.behaviour === behaviour) processor.behaviour = WELL;
        });
      },
      clock: ({ of, aheadMs }) => this.moveClock(of, aheadMs),
      operator: ({ of }) => settings.resolve?.(of),
    };
    (carryOut[fault.kind] as (fault: FaultKind) => unknown)(fault);
    if (fault.kind === 'cut') return 'lost';
    return fault.kind === 'delay' ? fault.forMs : undefined;
  }

  moveClock(of: number | 'redis' | 'postgres', aheadMs: number): void {
    const { simulation, processes, stores } = this;
    const wall = typeof of === 'number' ? processes.walls[of] : stores.walls[of];
    if (wall) wall.aheadMs += aheadMs;
    if (wall === stores.walls.postgres && aheadMs > 0) this.storeSetAhead.push(simulation.time);
    if (typeof of === 'string') {
      this.forgot.push({ at: simulation.time, key: undefined });
      this.clockWasMoved = true;
    }
    simulation.count('clock jumps');
  }

  /** All servers and networks were well. */
  wereCalm(from: number, to: number): boolean {
    return !isDuring(this.unwell, from, to) && !isDuring(this.stores.slowCommits, from - STATEMENT_DEADLINE_MS, to);
  }

  /** Nothing was wrong for the payment, and nothing wrong was felt any more. */
  wereOver(payment: string, from: number, to: number): boolean {
    const { slowCommits } = this.stores;
    const own = slowCommits.filter(({ subject }) => subject === payment);
    return (
      !isDuring(this.disturbed, from, to) &&
      !isDuring(own, from - LOSS_NOTICED_MS - this.settings.leaseMs, to) &&
      !isDuring(slowCommits, from - STATEMENT_DEADLINE_MS, to)
    );
  }

  /** Whether Redis may have forgotten the key since it was asked for. */
  mayHaveForgotten(key: string, since: number, until: number): boolean {
    return this.forgot.some((loss) => (loss.key ?? key) === key && loss.at >= since && loss.at <= until);
  }

  private disturb(fault: FaultKind): void {
    const { time } = this.simulation;
    // What a clock that was set back had given a life to lives longer, and longer still when it is set back again.
    if (fault.kind === 'clock') this.clocksMovedByMs += Math.abs(fault.aheadMs);
    const lastsMs = fault.kind === 'clock' ? this.clocksMovedByMs : 'forMs' in fault ? fault.forMs : 0;
    this.disturbed.push({ from: time, to: time + lastsMs + LOSS_NOTICED_MS + this.settings.leaseMs });
  }

  private beUnwell(ms: number): void {
    const { time } = this.simulation;
    this.unwell.push({ from: time, to: time + ms });
  }

  private forget(key: string | undefined, carryOut: () => void): void {
    this.simulation.count('losses');
    carryOut();
    this.forgot.push({ at: this.simulation.time, key });
  }

  private while({ kind, forMs }: { kind: string; forMs: number }, what: keyof Stores['conditions'], chance: number) {
    const { conditions } = this.stores;
    this.simulation.count(kind);
    conditions[what] = chance;
    this.simulation.after(forMs, undefined, () => {
      conditions[what] = 0;
    });
  }
}

/** Whether a name in Redis is that part of what is kept of a subject. */
function isPartOf(subject: string, suffix: string, name: string): boolean {
  const of = name.slice(0, name.indexOf('}'));
  const isOfSubject = nameOf(of.split('{')[1] ?? '') === subject || of.endsWith(`::${subject}`);
  return isOfSubject && name.slice(of.length) === suffix;
}

function isDuring(intervals: readonly Interval[], from: number, to: number): boolean {
  return intervals.some((interval) => interval.from <= to && interval.to >= from);
}

/** How far the clock of the store of record is set back in all. */
export function setBackMs({ faults }: Faulty): number {
  const ofStore = faults.map((fault) => (fault.kind === 'clock' && fault.of === 'postgres' ? fault.aheadMs : 0));
  return ofStore.reduce((sum, aheadMs) => sum + Math.max(0, -aheadMs), 0);
}

export function someMs(random: Random, longest: number): number {
  return random.pick([random.below(300), random.below(longest / 8), random.below(longest)]);
}

/** An operation as it was asked for, with its number on each subject: from 1. */
interface Operation {
  readonly name: string;
  readonly numbers: ReadonlyMap<string, number>;
}

interface Planned extends Trigger<string> {
  done: boolean;
  readonly inject: (caller: Process) => MessageFault;
}

/** Faults between two steps of one attempt, where faults by the clock would hardly ever come. */
export class TriggeredFaults {
  private readonly planned = new Map<string, Planned[]>();
  private readonly counted = new Map<string, number>();

  constructor(private readonly simulation: Simulation) {}

  /** `inject` is given the process that asked for the operation. */
  plan(trigger: Trigger<string>, inject: Planned['inject']): void {
    const others = this.planned.get(trigger.subject) ?? [];
    this.planned.set(trigger.subject, [...others, { ...trigger, done: false, inject }]);
  }

  begin(name: string, subjects: readonly string[]): Operation {
    const numbers = new Map<string, number>();
    for (const subject of new Set(subjects)) {
      if (!this.planned.has(subject)) continue;
      const number = (this.counted.get(subject) ?? 0) + 1;
      this.counted.set(subject, number);
      numbers.set(subject, number);
    }
    return { name, numbers };
  }

  injectAt(point: Planned['point'], { name, numbers }: Operation, caller: Process): MessageFault {
    let fault: MessageFault;
    for (const [subject, number] of numbers) {
      for (const planned of this.planned.get(subject) ?? []) {
        const { operation: due, only = '' } = planned;
        const isDue = typeof due === 'number' ? due === number : this.simulation.time >= due.notBefore;
        if (planned.done || planned.point !== point || !isDue || !name.startsWith(only)) continue;
        planned.done = true;
        fault = planned.inject(caller) ?? fault;
      }
    }
    return fault;
  }
}
