import type { Charge, ChargeResult, Processor } from '#idempay/payments/processor.js';
import type { Random } from '../../test/support/random.js';
import type { Actor, Simulation } from './simulation.js';

/** What the other company's machine is like. Chances from 0 to 1. */
export interface ProcessorBehaviour {
  /** Milliseconds from a charge's arrival to its outcome, at most. */
  latencyMs: number;
  declines: number;
  /** The charge is refused with nothing done (a 5xx). */
  fails: number;
  lostRequest: number;
  lostReply: number;
  /** A request is on its way for longer than its sender waits. */
  late: number;
  down: boolean;
}

interface Record {
  readonly at: number;
  /** Undefined while it is at work. */
  outcome: 'succeeded' | 'declined' | undefined;
}

/** The other company's machine: its charge log is the judge. It keeps its promise on references, and not a moment longer. */
export class ProcessorState {
  /** Every movement of money, in order. */
  readonly charges: Charge[] = [];
  readonly behaviour: ProcessorBehaviour = {
    latencyMs: 50,
    declines: 0,
    fails: 0,
    lostRequest: 0,
    lostReply: 0,
    late: 0,
    down: false,
  };
  private readonly records = new Map<string, Record>();

  constructor(
    private readonly simulation: Simulation,
    /** How long a reference that comes again is not charged again; 0: it deduplicates nothing. */
    readonly dedupMs: number,
    private readonly random: Random,
  ) {}

  /** A charge arrives. Resolves at the end of its work, to undefined where nothing is told of it. */
  charge(charge: Charge, done: (result: ChargeResult) => void): void {
    const { simulation, random, behaviour } = this;
    const known = this.records.get(charge.reference);
    if (known && simulation.time - known.at < this.dedupMs) {
      done(resultOf(known.outcome));
      return;
    }
    if (random.fraction() < behaviour.fails) {
      done({ state: 'unknown', cause: 'the processor failed' });
      return;
    }
    const record: Record = { at: simulation.time, outcome: undefined };
    this.records.set(charge.reference, record);
    const declined = random.fraction() < behaviour.declines;
    simulation.after(random.fraction() * behaviour.latencyMs, `charge of ${charge.reference}`, undefined, () => {
      record.outcome = declined ? 'declined' : 'succeeded';
      if (!declined) this.charges.push(charge);
      simulation.note(`${charge.reference} ${record.outcome}: ${charge.transactionId} ${charge.amount}`);
      done(resultOf(record.outcome));
    });
  }

  lookUp(reference: string): ChargeResult | { readonly state: 'no record' } {
    const record = this.records.get(reference);
    return record ? resultOf(record.outcome) : { state: 'no record' };
  }
}

function resultOf(outcome: Record['outcome']): ChargeResult {
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
  state: ProcessorState,
  instance: Actor,
  settings: { name: string; timeoutMs: number; dedupMs: number },
  random: Random,
): Processor {
  const { name, timeoutMs, dedupMs } = settings;

  function ask<T>(what: string, serve: (done: (result: T) => void) => void, unknown: (cause: string) => T): Promise<T> {
    const { behaviour } = state;
    return new Promise((resolve) => {
      let open = true;
      const tell = (result: T) => {
        if (!open) return;
        open = false;
        cancel();
        resolve(result);
      };
      const cancel = simulation.after(timeoutMs, `${instance.name} ${what}: given up`, instance, () =>
        tell(unknown('no answer in time')),
      );
      if (behaviour.down) {
        simulation.after(wayMs(), '', instance, () => tell(unknown('connection refused')));
        return;
      }
      if (random.fraction() < behaviour.lostRequest) {
        simulation.note(`${instance.name} ${what}: lost on the way`);
        return;
      }
      const lostReply = random.fraction() < behaviour.lostReply;
      const onTheWayMs = random.fraction() < behaviour.late ? random.fraction() * 6 * timeoutMs : wayMs();
      simulation.after(onTheWayMs, `${instance.name} ${what}`, undefined, () =>
        serve((result) => {
          if (!lostReply) simulation.after(wayMs(), '', instance, () => tell(result));
        }),
      );
    });
  }

  function wayMs(): number {
    return 1 + random.fraction() * 20;
  }

  return {
    name,
    typicalMs: 50,
    sendLimitMs: timeoutMs,
    dedupMs,
    charge: (charge) =>
      ask<ChargeResult>(
        `sends the charge of ${charge.reference} (${charge.transactionId}, ${charge.amount})`,
        (done) => state.charge(charge, done),
        (cause) => ({ state: 'unknown', cause }),
      ),
    lookUp: (reference) =>
      ask<ChargeResult | { readonly state: 'no record' }>(
        `looks ${reference} up`,
        (done) => done(state.lookUp(reference)),
        (cause) => ({ state: 'unknown', cause }),
      ),
  };
}
