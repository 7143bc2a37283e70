import type { Charge, ChargeResult, NotSent, Processor } from '#idempay/payments/ports/processor.js';
import { hashOf, type Process, type Simulation } from '../simulation.js';
import type { TriggeredFaults } from '../triggered-faults.js';
import { nameOf } from './keys.js';

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
  /** No connection is made: at once, or not until the sender's time-out. */
  readonly refuses: number;
}

export const WELL: ProcessorBehaviour = {
  latencyMs: 50,
  declines: 0.1,
  fails: 0,
  lostRequest: 0,
  lostReply: 0,
  late: 0,
  down: false,
  refuses: 0,
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

/** The other company's machine: the checker relies on its charge log. It keeps its promise on references, and not a moment longer. */
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
    const random = simulation.rng(hashOf(`charge ${reference}`));
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

/** The processor's port as one process has it: over a network that loses and delays. */
export function createSimulatedRemoteProcessor(
  simulation: Simulation,
  triggered: TriggeredFaults,
  machine: ProcessorMachine,
  process: Process,
  settings: { name: string; timeoutMs: number; dedupMs: number },
): Processor & { close(): void } {
  const { name, timeoutMs, dedupMs } = settings;
  /** Ends what is still asked as unknown. */
  const open = new Set<() => void>();

  function ask<T>(
    operation: string,
    reference: string,
    serve: (done: (result: T) => void) => void,
    unknown: (cause: string) => T,
    notSent: (cause: string) => T,
  ): Promise<T> {
    const { behaviour } = machine;
    const random = simulation.rng(hashOf(reference));
    const latencyMs = () => 1 + random.fraction() * 20;
    const what = simulation.tracing ? `${process.name} ${operation} ${reference}` : '';
    return new Promise((resolve) => {
      if (!process.alive) return;
      const asked = triggered.begin(operation, [reference]);
      let sent = true;
      const close = () => tell(unknown('the connection was closed'));
      open.add(close);
      const tell = (result: T) => {
        if (!open.delete(close)) return;
        cancel();
        resolve(result);
      };
      const cancel = simulation.after(
        timeoutMs,
        process,
        () => tell(sent ? unknown('no answer in time') : notSent('no connection in time')),
        what && `${what}: given up`,
      );
      if (behaviour.down) {
        simulation.after(latencyMs(), process, () => tell(notSent('connection refused')));
        return;
      }
      if (random.fraction() < behaviour.refuses) {
        sent = false;
        if (random.below(2) === 0) simulation.after(latencyMs(), process, () => tell(notSent('connection refused')));
        return;
      }
      const fault = triggered.injectAt('sent', asked, process);
      if (fault === 'lost' || random.fraction() < behaviour.lostRequest) {
        simulation.note(what && `${what}: lost on the network`);
        return;
      }
      const lostReply = random.fraction() < behaviour.lostReply;
      const late = random.fraction() < behaviour.late;
      const latestMs = LATEST_ARRIVAL_TIMEOUTS * timeoutMs;
      const arrivesAfterMs = late ? random.fraction() * latestMs : Math.min(latencyMs() + (fault ?? 0), latestMs);
      if (late) simulation.count('late at the processor');
      machine.stayBusy(reference, arrivesAfterMs);
      const arrive = () =>
        serve((result) => {
          const replyFault = triggered.injectAt('done', asked, process);
          if (replyFault === 'lost' || lostReply) return;
          simulation.after(latencyMs() + (replyFault ?? 0), process, () => tell(result));
        });
      simulation.arrive(arrivesAfterMs, undefined, arrive, what);
    });
  }

  return {
    name,
    typicalMs: 50,
    timeoutMs,
    dedupMs,
    close() {
      for (const end of [...open]) end();
    },
    charge(asked) {
      const sentAt = simulation.time;
      const charge = { ...asked, reference: nameOf(asked.reference) };
      return ask<ChargeResult | NotSent>(
        simulation.tracing ? `sends ${charge.transactionId} ${charge.amount} for` : '',
        charge.reference,
        (done) => machine.charge(charge, sentAt, done),
        (cause) => ({ state: 'unknown', cause }),
        (cause) => ({ state: 'not sent', cause }),
      );
    },
    lookUp: (key) =>
      ask<ChargeResult | { readonly state: 'no record' }>(
        'asks the processor about',
        nameOf(key),
        (done) => done(machine.lookUp(nameOf(key))),
        (cause) => ({ state: 'unknown', cause }),
        (cause) => ({ state: 'unknown', cause }),
      ),
  };
}
