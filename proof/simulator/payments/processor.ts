import type { Charge, ChargeResult, Processor } from '#idempay/payments/ports/processor.js';
import type { TriggeredFaults } from '../faults.js';
import type { Process, Simulation } from '../simulation.js';
import { nameOf } from './keys.js';

/** What the other company's machine is like, when nothing is wrong. Chances from 0 to 1. */
export const WELL = {
  /** From a charge's arrival to its outcome, at most. */
  latencyMs: 50,
  declines: 0.1,
  /** The charge is refused with nothing done (a 5xx). */
  fails: 0,
  lostRequest: 0,
  lostReply: 0,
  /** A request is on its way for longer than its sender waits. */
  late: 0,
  down: false,
  /** No connection is made: at once, or not until the sender's time-out. */
  refuses: 0,
};
export type ProcessorBehaviour = Readonly<typeof WELL>;

/** A call is late by this many of its sender's time-outs at most; a processor's promise must hold that much longer. */
export const LATEST_ARRIVAL_TIMEOUTS = 6;

interface Known {
  readonly at: number;
  result: ChargeResult;
}

/** The other company's machine: the checker relies on its charge log. It keeps its promise on references, and not a moment longer. */
export class ProcessorMachine {
  /** Every movement of money, in order. */
  readonly charges: (Charge & { readonly sentAt: number })[] = [];
  behaviour: ProcessorBehaviour = WELL;
  private readonly known = new Map<string, Known>();
  /** Until when something about a reference may still be on its way or at work. */
  private readonly busyUntil = new Map<string, number>();

  /**
   * `dedupMs`: how long a reference that comes again is not charged again; 0: it deduplicates nothing. `remembersMs`: how
   * long it remembers a reference when it is asked; then it says that it has no record.
   */
  constructor(
    private readonly simulation: Simulation,
    private readonly promise: { readonly dedupMs: number; readonly remembersMs: number },
  ) {}

  /** A charge arrives that was sent at `sentAt`. `done` is told at the end of its work. */
  charge(charge: Charge, sentAt: number, done: (result: ChargeResult) => void): void {
    const { simulation, behaviour } = this;
    const { reference, transactionId, amount } = charge;
    const random = simulation.rng(`charge ${reference}`);
    const known = this.known.get(reference);
    if (known && simulation.time - known.at < this.promise.dedupMs) {
      simulation.count('charges deduplicated');
      done(known.result);
      return;
    }
    if (random.fraction() < behaviour.fails) {
      simulation.count('processor failures');
      done({ state: 'unknown', cause: 'the processor failed' });
      return;
    }
    const record: Known = { at: simulation.time, result: { state: 'unknown', cause: 'still at work' } };
    this.known.set(reference, record);
    const declined = random.fraction() < behaviour.declines;
    const worksMs = random.fraction() * behaviour.latencyMs;
    this.stayBusy(reference, worksMs);
    simulation.arrive(worksMs, undefined, () => {
      record.result = declined ? { state: 'declined', reason: 'insufficient funds' } : { state: 'succeeded' };
      if (!declined) this.charges.push({ ...charge, sentAt });
      simulation.note(`CHARGE ${reference} ${record.result.state}: ${transactionId} ${amount}`);
      done(record.result);
    });
  }

  lookUp(reference: string): ChargeResult | { readonly state: 'no record' } {
    const known = this.known.get(reference);
    const isForgotten = known && this.simulation.time - known.at >= this.promise.remembersMs;
    if (isForgotten) this.simulation.count('references forgotten');
    return known && !isForgotten ? known.result : { state: 'no record' };
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

/** The processor's port as one process has it: over a network that loses and delays. */
export function createSimulatedRemoteProcessor(
  simulation: Simulation,
  triggered: TriggeredFaults,
  machine: ProcessorMachine,
  process: Process,
  settings: Pick<Processor, 'name' | 'timeoutMs' | 'dedupMs'>,
): Processor & { close(): void } {
  const { timeoutMs } = settings;
  /** Ends what is still asked as unknown. */
  const open = new Set<() => void>();

  /** `notSent`: what is answered where surely nothing was. */
  function ask<Result, State extends string>(
    operation: string,
    reference: string,
    serve: (done: (result: Result) => void) => void,
    notSent: State,
  ): Promise<Result | { readonly state: State | 'unknown'; readonly cause: string }> {
    const { behaviour } = machine;
    const random = simulation.rng(reference);
    const latencyMs = () => 1 + random.fraction() * 20;
    const what = `${process.name} ${operation} ${reference}`;
    return new Promise((resolve) => {
      if (!process.alive) return;
      const asked = triggered.begin(operation, [reference]);
      const close = () => tell({ state: 'unknown', cause: 'the connection was closed' });
      open.add(close);
      const tell: typeof resolve = (result) => {
        open.delete(close);
        cancel();
        resolve(result);
      };
      const refuses = !behaviour.down && random.fraction() < behaviour.refuses;
      const timeOut = refuses
        ? { state: notSent, cause: 'no connection in time' }
        : ({ state: 'unknown', cause: 'no answer in time' } as const);
      const cancel = simulation.after(timeoutMs, process, () => tell(timeOut), `${what}: given up`);
      if (behaviour.down || refuses) {
        const refuse = () => tell({ state: notSent, cause: 'connection refused' });
        if (behaviour.down || random.below(2) === 0) simulation.after(latencyMs(), process, refuse);
        return;
      }
      const fault = triggered.injectAt('sent', asked, process);
      if (fault === 'lost' || random.fraction() < behaviour.lostRequest) {
        simulation.note(`${what}: lost on the network`);
        return;
      }
      const lostReply = random.fraction() < behaviour.lostReply;
      const late = random.fraction() < behaviour.late;
      const latestMs = LATEST_ARRIVAL_TIMEOUTS * timeoutMs;
      const arrivesAfterMs = late ? random.fraction() * latestMs : Math.min(latencyMs() + (fault ?? 0), latestMs);
      if (late) simulation.count('late at the processor');
      machine.stayBusy(reference, arrivesAfterMs);
      const reply = (result: Result) => {
        const replyFault = triggered.injectAt('done', asked, process);
        if (replyFault === 'lost' || lostReply) return;
        simulation.after(latencyMs() + (replyFault ?? 0), process, () => tell(result));
      };
      simulation.arrive(arrivesAfterMs, undefined, () => serve(reply), what);
    });
  }

  return {
    ...settings,
    typicalMs: 50,
    close() {
      for (const end of [...open]) end();
    },
    charge(asked) {
      const sentAt = simulation.time;
      const charge = { ...asked, reference: nameOf(asked.reference) };
      const { reference, transactionId, amount } = charge;
      const serve = (done: (result: ChargeResult) => void) => machine.charge(charge, sentAt, done);
      return ask(`sends ${transactionId} ${amount} for`, reference, serve, 'not sent');
    },
    lookUp: (key) =>
      ask(
        'asks the processor about',
        nameOf(key),
        (done: (result: ReturnType<ProcessorMachine['lookUp']>) => void) => done(machine.lookUp(nameOf(key))),
        'unknown',
      ),
  };
}
