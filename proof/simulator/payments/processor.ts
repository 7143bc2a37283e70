import type { Charge, ChargeResult, NotSent, Processor } from '#idempay/payments/ports/processor.js';
import type { Ambushes } from '../ambushes.js';
import { type Actor, hashOf, type Simulation } from '../simulation.js';

/** What the other company's machine is like. Chances from 0 to 1. */
export interface ProcessorBehaviour {
  /** Milliseconds from a charge's arrival to its outcome, at most. */
  readonly latencyMs: number;
  readonly declines: number;
  /** The charge is refused with nothing done (a 5xx). */
  readonly fails: number;
  readonly lostRequest: number;
  readonly lostReply: number;
  /** A request is on its way for longer than its sender waits. */
  readonly late: number;
  readonly down: boolean;
  /** No connection is made: at once, or not until the sender's time-out. Absent in plans from before there was one. */
  readonly refuses?: number;
}

export const WELL: ProcessorBehaviour = {
  latencyMs: 50,
  declines: 0.1,
  fails: 0,
  lostRequest: 0,
  lostReply: 0,
  late: 0,
  down: false,
};

/** A call is late by this many of its sender's time-outs at most; a processor's promise must hold that much longer. */
export const LATEST_ARRIVAL_TIMEOUTS = 6;

interface Known {
  readonly at: number;
  /** Undefined while it is at work. */
  outcome: 'succeeded' | 'declined' | undefined;
}

export interface ProcessorPromise {
  /** How long a reference that comes again is not charged again; 0: it deduplicates nothing. */
  readonly dedupMs: number;
  /** How long it remembers a reference when it is asked; then it says that it has no record. */
  readonly remembersMs: number;
}

/** The other company's machine: its charge log is the judge. It keeps its promise on references, and not a moment longer. */
export class ProcessorMachine {
  /** Every movement of money, in order. */
  readonly charges: (Charge & { readonly sentAt: number; readonly at: number })[] = [];
  behaviour: ProcessorBehaviour = WELL;
  private readonly known = new Map<string, Known>();
  /** Until when something about a reference may still be on its way or at work. */
  private readonly busyUntil = new Map<string, number>();

  constructor(
    private readonly simulation: Simulation,
    private readonly promise: ProcessorPromise,
  ) {}

  /** A charge arrives that was sent at `sentAt`. `done` is told at the end of its work. */
  charge(charge: Charge, sentAt: number, done: (result: ChargeResult) => void): void {
    const { simulation, behaviour } = this;
    const { reference } = charge;
    const random = simulation.luck(hashOf(`charge ${reference}`));
    const known = this.known.get(reference);
    if (known && simulation.time - known.at < this.promise.dedupMs) {
      simulation.count('charges deduplicated');
      done(resultOf(known.outcome));
      return;
    }
    if (random.fraction() < behaviour.fails) {
      simulation.count('processor failures');
      done({ state: 'unknown', cause: 'the processor failed' });
      return;
    }
    const record: Known = { at: simulation.time, outcome: undefined };
    this.known.set(reference, record);
    const declined = random.fraction() < behaviour.declines;
    const worksMs = random.fraction() * behaviour.latencyMs;
    this.stayBusy(reference, worksMs);
    simulation.arrive(worksMs, undefined, () => {
      record.outcome = declined ? 'declined' : 'succeeded';
      if (!declined) this.charges.push({ ...charge, sentAt, at: simulation.time });
      if (simulation.tracing) {
        simulation.note(`CHARGE ${reference} ${record.outcome}: ${charge.transactionId} ${charge.amount}`);
      }
      done(resultOf(record.outcome));
    });
  }

  lookUp(reference: string): ChargeResult | { readonly state: 'no record' } {
    const known = this.known.get(reference);
    if (!known) return { state: 'no record' };
    if (this.simulation.time - known.at >= this.promise.remembersMs) {
      this.simulation.count('references forgotten');
      return { state: 'no record' };
    }
    return resultOf(known.outcome);
  }

  stayBusy(reference: string, ms: number): void {
    const until = Math.max(this.busyUntil.get(reference) ?? 0, this.simulation.time + ms);
    this.busyUntil.set(reference, until);
  }

  /** What an operator would be told for certain: undefined while anything may still happen. */
  verdictOn(reference: string): 'COMPLETED' | 'DECLINED' | undefined {
    if ((this.busyUntil.get(reference) ?? 0) >= this.simulation.time) return undefined;
    return this.charges.some((charge) => charge.reference === reference) ? 'COMPLETED' : 'DECLINED';
  }
}

function resultOf(outcome: Known['outcome']): ChargeResult {
  switch (outcome) {
    case undefined:
      return { state: 'unknown', cause: 'still at work' };
    case 'succeeded':
      return { state: 'succeeded' };
    case 'declined':
      return { state: 'declined', reason: 'insufficient funds' };
  }
}

/** The processor's port as one instance has it: over a network that loses and delays. */
export function createSimulatedRemoteProcessor(
  simulation: Simulation,
  ambushes: Ambushes,
  machine: ProcessorMachine,
  instance: Actor,
  settings: { name: string; timeoutMs: number; dedupMs: number },
): Processor {
  const { name, timeoutMs, dedupMs } = settings;

  function ask<T>(
    operation: string,
    reference: string,
    serve: (done: (result: T) => void) => void,
    unknown: (cause: string) => T,
    notSent: (cause: string) => T,
  ): Promise<T> {
    const { behaviour } = machine;
    const random = simulation.luck(hashOf(reference));
    const wayMs = () => 1 + random.fraction() * 20;
    const what = simulation.tracing ? `${instance.name} ${operation} ${reference}` : '';
    return new Promise((resolve) => {
      if (!instance.alive) return;
      const asked = { number: ambushes.begin(reference), name: operation };
      let open = true;
      let sent = true;
      const tell = (result: T) => {
        if (!open) return;
        open = false;
        cancel();
        resolve(result);
      };
      const cancel = simulation.after(
        timeoutMs,
        instance,
        () => tell(sent ? unknown('no answer in time') : notSent('no connection in time')),
        what && `${what}: given up`,
      );
      if (behaviour.down) {
        simulation.after(wayMs(), instance, () => tell(notSent('connection refused')));
        return;
      }
      if (behaviour.refuses && random.fraction() < behaviour.refuses) {
        sent = false;
        if (random.below(2) === 0) simulation.after(wayMs(), instance, () => tell(notSent('connection refused')));
        return;
      }
      const mishap = ambushes.strikeAt('sent', reference, asked, instance);
      if (mishap === 'lost' || random.fraction() < behaviour.lostRequest) {
        simulation.note(what && `${what}: lost on the way`);
        return;
      }
      const lostReply = random.fraction() < behaviour.lostReply;
      const late = random.fraction() < behaviour.late;
      const latestMs = LATEST_ARRIVAL_TIMEOUTS * timeoutMs;
      const onTheWayMs = late ? random.fraction() * latestMs : Math.min(wayMs() + (mishap ?? 0), latestMs);
      if (late) simulation.count('late at the processor');
      machine.stayBusy(reference, onTheWayMs);
      const arrive = () =>
        serve((result) => {
          const mishapOfReply = ambushes.strikeAt('done', reference, asked, instance);
          if (mishapOfReply === 'lost' || lostReply) return;
          simulation.after(wayMs() + (mishapOfReply ?? 0), instance, () => tell(result));
        });
      simulation.arrive(onTheWayMs, undefined, arrive, what);
    });
  }

  return {
    name,
    typicalMs: 50,
    timeoutMs,
    dedupMs,
    charge(charge) {
      const sentAt = simulation.time;
      return ask<ChargeResult | NotSent>(
        simulation.tracing ? `sends ${charge.transactionId} ${charge.amount} for` : '',
        charge.reference,
        (done) => machine.charge(charge, sentAt, done),
        (cause) => ({ state: 'unknown', cause }),
        (cause) => ({ state: 'not sent', cause }),
      );
    },
    lookUp: (reference) =>
      ask<ChargeResult | { readonly state: 'no record' }>(
        'asks the processor about',
        reference,
        (done) => done(machine.lookUp(reference)),
        (cause) => ({ state: 'unknown', cause }),
        (cause) => ({ state: 'unknown', cause }),
      ),
  };
}
