import type { FaultKind, Faulty, Target } from './fault-plan.js';
import { nameOf } from './payments/keys.js';
import { type ProcessorMachine, WELL } from './payments/processor.js';
import type { Processes } from './processes.js';
import type { Process, Simulation } from './simulation.js';
import { type Interval, STATEMENT_DEADLINE_MS, type Stores } from './stores.js';
import type { MessageFault, TriggeredFaults } from './triggered-faults.js';

/** A caller whose message was lost has noticed by then. */
const LOSS_NOTICED_MS = STATEMENT_DEADLINE_MS + 1_000;

/** What is forgotten of a subject, by the end of its name in Redis. */
const SUFFIXES = { record: '}', lock: '}:lock', entry: '}', token: '}:fill', marks: '}:marks' } as const;

export interface FaultSettings {
  /** Nothing is injected after this. */
  readonly endMs: number;
  /** As long as a lock or a lease that was left behind may stand. */
  readonly leaseMs: number;
  /** What a subject of the plan is called. */
  nameOf(subject: number): string;
  readonly processor?: ProcessorMachine;
  /** An operator makes up their mind about a payment. */
  resolve?(subject: number): void;
}

/** Injects the faults of a plan, and remembers what a checker must know of them. */
export class Faults {
  /** When Redis forgot something of a key (or of all: undefined), or a clock that judges expiry was moved. */
  readonly forgot: { readonly at: number; readonly key: string | undefined }[] = [];
  readonly storeSetAhead: number[] = [];
  /** When servers or networks were not well. */
  private readonly unwell: Interval[] = [];
  /** When anything at all was wrong, and as long as it may be felt. */
  private readonly disturbed: Interval[] = [];
  private clocksMoved = 0;
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
    links.redis.restore();
    links.postgres.restore();
    Object.assign(conditions, { slowCommits: 0, noRoom: 0 });
    if (this.settings.processor) this.settings.processor.behaviour = WELL;
  }

  private inject(fault: FaultKind, caller: Process | undefined): MessageFault {
    const { simulation, processes, stores, settings } = this;
    const remainingMs = settings.endMs - simulation.time;
    if (remainingMs <= 0) return undefined;
    if (simulation.tracing) simulation.note(`FAULT ${JSON.stringify(fault)}`);
    const forMs = 'forMs' in fault ? Math.min(fault.forMs, remainingMs) : 0;
    this.disturb(fault);
    switch (fault.kind) {
      case 'crash':
        processes.crash(indexOf(fault.target, caller), forMs);
        return undefined;
      case 'pause':
        processes.pause(indexOf(fault.target, caller), forMs, fault.wakesInOrder);
        return undefined;
      case 'pause and crash': {
        const index = indexOf(fault.target, caller);
        processes.pause(index, forMs, true);
        simulation.after(forMs + fault.thenMs, undefined, () => processes.crash(index, 0), `i${index} dies`);
        return undefined;
      }
      case 'drain':
        processes.drain(indexOf(fault.target, caller), forMs);
        return undefined;
      case 'cut':
        this.unwell.push({ from: simulation.time, to: simulation.time + LOSS_NOTICED_MS });
        return 'lost';
      case 'delay':
        this.unwell.push({ from: simulation.time, to: simulation.time + LOSS_NOTICED_MS + fault.forMs });
        return fault.forMs;
      case 'flush':
        this.forget(undefined, () => stores.redis?.forget());
        return undefined;
      case 'evict': {
        const subject = settings.nameOf(fault.of);
        const key = fault.what === 'lock' ? 'no record' : subject;
        this.forget(key, () => stores.redis?.forget((name) => isPartOf(subject, SUFFIXES[fault.what], name)));
        return undefined;
      }
      case 'failover': {
        const promote = stores.redis?.copy();
        this.forgot.push({ at: simulation.time, key: undefined });
        const failOver = () => this.forget(undefined, () => promote?.());
        simulation.after(forMs, undefined, failOver, 'a replica takes the place of redis');
        return undefined;
      }
      case 'network': {
        const indexes = fault.of === 'all' ? processes.indexes() : [fault.of];
        const set = stores.links[fault.server].setConditions(indexes, fault.conditions);
        simulation.count('network conditions');
        this.whileUnwell(fault.forMs, LOSS_NOTICED_MS, () => set.end());
        return undefined;
      }
      case 'slow commits':
        this.while(fault, () => Object.assign(stores.conditions, { slowCommits: 0.5 }), { slowCommits: 0 });
        return undefined;
      case 'no room for fills':
        this.while(fault, () => Object.assign(stores.conditions, { noRoom: 1 }), { noRoom: 0 });
        return undefined;
      case 'processor': {
        const { processor } = settings;
        if (!processor) return undefined;
        processor.behaviour = fault.behaviour;
        simulation.count('bad behaviour of the processor');
        this.whileUnwell(fault.forMs, 0, () => {
          if (processor.behaviour === fault.behaviour) processor.behaviour = WELL;
        });
        return undefined;
      }
      case 'clock':
        this.moveClock(fault.of, fault.aheadMs);
        return undefined;
      case 'operator':
        settings.resolve?.(fault.of);
        return undefined;
    }
  }

  moveClock(of: number | 'redis' | 'postgres', aheadMs: number): void {
    const { simulation, processes, stores } = this;
    const wall = typeof of === 'number' ? processes.walls[of] : stores.walls[of];
    if (wall) wall.aheadMs += aheadMs;
    if (wall === stores.walls.postgres && aheadMs > 0) this.storeSetAhead.push(simulation.time);
    if (typeof of === 'string') {
      this.forgot.push({ at: simulation.time, key: undefined });
      this.clocksMoved += 1;
    }
    simulation.count('clock jumps');
  }

  /** Of a server that judges when something expires. */
  clockWasMoved(): boolean {
    return this.clocksMoved > 0;
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

  private forget(key: string | undefined, carryOut: () => void): void {
    this.simulation.count('losses');
    carryOut();
    this.forgot.push({ at: this.simulation.time, key });
  }

  private while(
    { kind, forMs }: { kind: string; forMs: number },
    begin: () => void,
    after: Partial<Stores['conditions']>,
  ) {
    this.simulation.count(kind);
    begin();
    this.simulation.after(forMs, undefined, () => Object.assign(this.stores.conditions, after));
  }

  private whileUnwell(ms: number, noticedMs: number, end: () => void): void {
    const { time } = this.simulation;
    // Others of the same process may have to wait until the caller of a lost message has noticed.
    this.unwell.push({ from: time, to: Math.min(time + ms, this.settings.endMs) + noticedMs });
    this.simulation.after(ms, undefined, end);
  }
}

/** Whether a name in Redis is that part of what is kept of a subject. */
function isPartOf(subject: string, suffix: string, name: string): boolean {
  const of = name.slice(0, name.indexOf('}'));
  return (
    name.slice(of.length) === suffix && (nameOf(of.split('{')[1] ?? '') === subject || of.endsWith(`::${subject}`))
  );
}

function isDuring(intervals: readonly Interval[], from: number, to: number): boolean {
  return intervals.some((interval) => interval.from <= to && interval.to >= from);
}

function indexOf(target: Target, caller: Process | undefined): number {
  return target === 'caller' ? (caller?.index ?? 0) : target;
}
