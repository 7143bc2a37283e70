import type { Random } from '../../testkit/random.js';
import type { NetworkConditions } from './network.js';
import { nameOf } from './payments/keys.js';
import { type ProcessorBehaviour, type SimulatedProcessor, WELL } from './payments/processor.js';
import type { ReceiverBehaviour, SimulatedReceivers } from './payments/receivers.js';
import type { Process, Simulation } from './simulation.js';
import { type Interval, type ServerName, STATEMENT_DEADLINE_MS } from './stores.js';
import type { World } from './world.js';

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

/** The fate of the next message: it is lost, or late by some milliseconds. */
type MessageFault = 'lost' | number | undefined;

/** The numbers of webhook endpoints are below those of keys. */
export const endpointSubject = (index: number) => -1 - index;

/** By the time, or at a step of whichever process is at work on a subject: a key, a transaction or an endpoint, by its number. */
type Moment = { readonly at: number } | Trigger<number>;

/** A process by its index, or the one whose step triggered the fault. */
type Target = number | 'caller';

export type FaultKind =
  | { readonly kind: 'crash' | 'drain'; readonly target: Target; readonly forMs: number }
  | { readonly kind: 'pause'; readonly target: Target; readonly forMs: number; readonly wakesInOrder: boolean }
  | { readonly kind: 'pause and crash'; readonly target: Target; readonly forMs: number; readonly thenMs: number }
  | { readonly kind: 'cut' }
  | { readonly kind: 'delay'; readonly forMs: number }
  /** FLUSHALL: the server goes on under its old name. */
  | { readonly kind: 'flush' }
  | { readonly kind: 'evict'; readonly what: 'record' | 'lock' | 'entry' | 'token' | 'marks'; readonly of: number }
  /** After `forMs` a replica takes over that has heard of nothing since now: the server has another name. */
  | { readonly kind: 'failover'; readonly forMs: number }
  /** After `forMs` the store of record is set back to its state of now: the processes end before that, or have another server then. */
  | {
      readonly kind: 'restore';
      readonly forMs: number;
      readonly ends: boolean;
      /** The clock of its new server is so far behind the former one. If omitted, it is the same. */
      readonly behindMs?: number;
    }
  | { readonly kind: 'receiver'; readonly of: number; readonly behaviour: ReceiverBehaviour; readonly forMs: number }
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
export type Faulty = { readonly seed: number; readonly faults: readonly Fault[] };

/** A caller notices a lost message within this time. */
const LOSS_NOTICED_MS = STATEMENT_DEADLINE_MS + 1_000;
/** The processes start again this long after a restore. */
const RESTORED_MS = 500;

/** The part of a subject that is forgotten, by the end of its name in Redis. */
const SUFFIXES = { record: '}', lock: '}:lock', entry: '}', token: '}:fill', marks: '}:marks' } as const;

interface FaultSettings {
  /** Nothing is injected after this. */
  readonly endMs: number;
  /** As long as a lock or a lease that was left behind may stand. */
  readonly leaseMs: number;
  nameOf(subject: number): string;
  readonly processor?: SimulatedProcessor;
  readonly receivers?: Pick<SimulatedReceivers, 'behaviours'>;
  resolve?(subject: number): void;
  /** Rows were lost. */
  restored?(): void;
}

type CarryOut = { [Kind in FaultKind['kind']]: (fault: Extract<FaultKind, { readonly kind: Kind }>) => unknown };

/** Injects the faults of a plan, and remembers what a checker must know of them. */
export function createFaults<Service>(
  { simulation, triggered, processes, stores }: World<Service>,
  { endMs, leaseMs, nameOf: nameOfSubject, processor, receivers, resolve, restored }: FaultSettings,
) {
  const { links, conditions, slowCommits } = stores;
  /** When Redis forgot something of a key (or of all: undefined), or a clock that judges expiry was moved. */
  const forgot: { readonly at: number; readonly key: string | undefined }[] = [];
  /** When the clock of the store of record was set, and by how much. */
  const storeSet: { readonly at: number; readonly aheadMs: number }[] = [];
  const restores: number[] = [];
  /** When servers or networks had faults. */
  const unwell: Interval[] = [];
  /** When there was any fault, extended by the time of its after-effects. */
  const disturbed: Interval[] = [];
  let isClockMoved = false;
  let clocksMovedByMs = 0;

  const last = (intervals: Interval[], ms: number) =>
    intervals.push({ from: simulation.time, to: simulation.time + ms });

  function inject(fault: FaultKind, caller: Process | undefined): MessageFault {
    const remainingMs = endMs - simulation.time;
    if (remainingMs <= 0) return undefined;
    simulation.note(`FAULT ${JSON.stringify(fault)}`);
    const forMs = 'forMs' in fault ? Math.min(fault.forMs, remainingMs) : 0;
    const target = 'target' in fault && fault.target !== 'caller' ? fault.target : (caller?.index ?? 0);
    if (fault.kind !== 'receiver') last(disturbed, lastsMs(fault) + LOSS_NOTICED_MS + leaseMs);
    const carryOut: CarryOut = {
      crash: () => processes.crash(target, forMs),
      drain: () => processes.drain(target, forMs),
      pause: ({ wakesInOrder }) => processes.pause(target, forMs, wakesInOrder),
      'pause and crash': ({ thenMs }) => {
        processes.pause(target, forMs, true);
        simulation.after(forMs + thenMs, undefined, () => processes.crash(target, 0), `i${target} dies`);
      },
      cut: () => last(unwell, LOSS_NOTICED_MS),
      delay: (late) => last(unwell, LOSS_NOTICED_MS + late.forMs),
      flush: () => forget(undefined, () => stores.redis?.forget()),
      evict: ({ what, of }) => {
        const subject = nameOfSubject(of);
        const evict = () => stores.redis?.forget((name) => isPartOf(subject, SUFFIXES[what], name));
        forget(what === 'lock' ? 'no record' : subject, evict);
      },
      failover: () => {
        const promote = stores.redis?.copy();
        forgot.push({ at: simulation.time, key: undefined });
        const failOver = () => forget(undefined, () => promote?.());
        simulation.after(forMs, undefined, failOver, 'a replica takes the place of redis');
      },
      restore: ({ ends, behindMs = 0 }) => {
        const setBack = stores.backUp();
        const restore = () => {
          simulation.count('restores');
          if (ends || !stores.postgres) for (const index of processes.indexes) processes.crash(index, RESTORED_MS);
          stores.walls.postgres.aheadMs -= behindMs;
          setBack();
          restores.push(simulation.time);
          restored?.();
        };
        simulation.after(forMs, undefined, restore, 'the store is set back');
      },
      network: ({ of, server, conditions: bad, forMs: ms }) => {
        const restore = links[server].setConditions(of === 'all' ? processes.indexes : [of], bad);
        simulation.count('network conditions');
        // Others of the same process may have to wait until the caller of a lost message has noticed.
        last(unwell, forMs + Math.max(LOSS_NOTICED_MS, bad.slow > 0 ? links[server].feltForMs : 0));
        simulation.after(ms, undefined, restore);
      },
      'slow commits': (slow) => setFor(slow, 'slowCommits', 0.5),
      'no room for fills': (full) => setFor(full, 'noRoom', 1),
      processor: ({ behaviour, forMs: ms }) => {
        if (!processor) return;
        processor.behaviour = behaviour;
        simulation.count('bad behaviour of the processor');
        last(unwell, forMs);
        simulation.after(ms, undefined, () => {
          if (processor.behaviour === behaviour) processor.behaviour = WELL;
        });
      },
      receiver: ({ of, behaviour }) => {
        if (!receivers) return;
        simulation.count('bad times of receivers');
        receivers.behaviours.set(of, behaviour);
        simulation.after(forMs, undefined, () => {
          if (receivers.behaviours.get(of) === behaviour) receivers.behaviours.delete(of);
        });
      },
      clock: ({ of, aheadMs }) => moveClock(of, aheadMs),
      operator: ({ of }) => resolve?.(of),
    };
    (carryOut[fault.kind] as (fault: FaultKind) => unknown)(fault);
    if (fault.kind === 'cut') return 'lost';
    return fault.kind === 'delay' ? fault.forMs : undefined;
  }

  function lastsMs(fault: FaultKind): number {
    if (fault.kind !== 'clock') return 'forMs' in fault ? fault.forMs : 0;
    // An expiry from before a clock was set back comes later, and later still when the clock is set back again.
    clocksMovedByMs += Math.abs(fault.aheadMs);
    return clocksMovedByMs;
  }

  function moveClock(of: number | ServerName, aheadMs: number): void {
    const wall = typeof of === 'number' ? processes.walls[of] : stores.walls[of];
    if (wall) wall.aheadMs += aheadMs;
    if (wall === stores.walls.postgres) storeSet.push({ at: simulation.time, aheadMs });
    if (typeof of === 'string') {
      if (stores.postgres) forgot.push({ at: simulation.time, key: undefined });
      isClockMoved = true;
    }
    simulation.count('clock jumps');
  }

  function forget(key: string | undefined, carryOut: () => void): void {
    simulation.count('losses');
    carryOut();
    forgot.push({ at: simulation.time, key });
  }

  function setFor({ kind, forMs }: { kind: string; forMs: number }, what: keyof typeof conditions, chance: number) {
    simulation.count(kind);
    conditions[what] = chance;
    simulation.after(forMs, undefined, () => Object.assign(conditions, { [what]: 0 }));
  }

  return {
    ...{ storeSet, restores, moveClock, clockWasMoved: () => isClockMoved },

    plan({ faults }: Faulty): void {
      for (const fault of faults) {
        if ('at' in fault) simulation.after(fault.at, undefined, () => inject(fault, undefined));
        else triggered.plan({ ...fault, subject: nameOfSubject(fault.subject) }, (caller) => inject(fault, caller));
      }
    },

    end(): void {
      for (const link of [links.redis, links.postgres]) link.restore();
      Object.assign(conditions, { slowCommits: 0, noRoom: 0 });
      if (processor) processor.behaviour = WELL;
      receivers?.behaviours.clear();
    },

    wereCalm: (from: number, to: number): boolean =>
      !isDuring(unwell, from, to) && !isDuring(slowCommits, from - STATEMENT_DEADLINE_MS, to),

    /** In this time there was no fault, and no after-effect of one, for the payment. */
    wereOver(payment: string, from: number, to: number): boolean {
      const own = slowCommits.filter(({ subject }) => subject === payment);
      const wasSlow = isDuring(own, from - LOSS_NOTICED_MS - leaseMs, to);
      return !wasSlow && !isDuring(disturbed, from, to) && !isDuring(slowCommits, from - STATEMENT_DEADLINE_MS, to);
    },

    /** True if Redis may have forgotten the key since it was asked for. */
    mayHaveForgotten(key: string, since: number, until: number): boolean {
      const losses = [...forgot, ...stores.clockLeaps.map((at) => ({ at, key }))];
      return losses.some((loss) => (loss.key ?? key) === key && loss.at >= since && loss.at <= until);
    },
  };
}

/** True if a name in Redis stands for that part of a subject's entries. */
function isPartOf(subject: string, suffix: string, name: string): boolean {
  const of = name.slice(0, name.indexOf('}'));
  const isOfSubject = nameOf(of.split('{')[1] ?? '') === subject || of.endsWith(`::${subject}`);
  return isOfSubject && name.slice(of.length) === suffix;
}

const isDuring = (intervals: readonly Interval[], from: number, to: number) =>
  intervals.some((interval) => interval.from <= to && interval.to >= from);

/** How far the clock of the store of record is set back in all. */
export function setBackMs({ faults }: Faulty): number {
  const ofStore = faults.map((fault) => (fault.kind === 'clock' && fault.of === 'postgres' ? fault.aheadMs : 0));
  return ofStore.reduce((sum, aheadMs) => sum + Math.max(0, -aheadMs), 0);
}

export const someMs = (random: Random, longest: number) =>
  random.pick([random.below(300), random.below(longest / 8), random.below(longest)]);

export type TriggeredFaults = ReturnType<typeof createTriggeredFaults>;

/** Faults between two steps of one attempt, because faults by the clock would hardly ever come there. */
export function createTriggeredFaults(simulation: Simulation) {
  /** `inject` is given the process that asked for the operation. */
  type Inject = (caller: Process) => MessageFault;
  const planned = new Map<string, (Trigger<string> & { done: boolean; readonly inject: Inject })[]>();
  const counted = new Map<string, number>();

  function isDue({ operation, only = '' }: Trigger<string>, name: string, number: number): boolean {
    if (!name.startsWith(only)) return false;
    return typeof operation === 'number' ? operation === number : simulation.time >= operation.notBefore;
  }

  return {
    plan(trigger: Trigger<string>, inject: Inject): void {
      planned.set(trigger.subject, [...(planned.get(trigger.subject) ?? []), { ...trigger, done: false, inject }]);
    },

    /** An operation is asked for: it gets its number on each subject, from 1. */
    begin(name: string, subjects: readonly string[]) {
      const numbers = new Map<string, number>();
      for (const subject of new Set(subjects)) {
        if (!planned.has(subject)) continue;
        const number = (counted.get(subject) ?? 0) + 1;
        counted.set(subject, number);
        numbers.set(subject, number);
      }
      return { name, numbers };
    },

    injectAt(
      point: Trigger<string>['point'],
      { name, numbers }: { readonly name: string; readonly numbers: ReadonlyMap<string, number> },
      caller: Process,
    ): MessageFault {
      let fault: MessageFault;
      for (const [subject, number] of numbers) {
        for (const trigger of planned.get(subject) ?? []) {
          if (trigger.done || trigger.point !== point || !isDue(trigger, name, number)) continue;
          trigger.done = true;
          fault = trigger.inject(caller) ?? fault;
        }
      }
      return fault;
    },
  };
}
