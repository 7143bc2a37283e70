import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Faults } from '../faults.js';
import type { ObservedPayment } from '../observed.js';
import type { Processes } from '../processes.js';
import type { Simulation } from '../simulation.js';
import type { PaymentClients } from './clients.js';
import type { ProcessorMachine } from './processor.js';

/** A person who asks the processor, and gives the verdict that is true where nothing can change it any more. */
export class Operator {
  /** When an operator first made up their mind about a payment. */
  private readonly verdicts = new Map<string, number>();

  constructor(
    private readonly simulation: Simulation,
    private readonly processes: Processes<PaymentArea>,
    private readonly processor: ProcessorMachine,
    private readonly clients: PaymentClients,
    private readonly leaseMs: number,
  ) {}

  async resolve(name: string): Promise<void> {
    const { simulation, processes } = this;
    const state = this.processor.verdictOn(name);
    const key = this.clients.keys.get(name);
    if (state === undefined || key === undefined) return;
    if (!this.verdicts.has(name)) this.verdicts.set(name, simulation.time);
    const random = simulation.rng(`operator ${name}`);
    const verdict = { state, reason: 'the operator asked the processor' };
    const at = random.below(processes.size);
    const answer = await processes.call(at, random, `resolve ${name} as ${state}`, ({ records }) =>
      records.resolve(key, verdict),
    );
    simulation.note(typeof answer === 'string' ? answer : `the operator hears: ${answer.state}`);
  }

  /**
   * Sent between the operator's look at the processor and the arrival of the verdict: the operator cannot know of it. Or
   * within a lease after it, by an owner whose lease a clock that was set ahead had ended for all others.
   */
  couldNotKnow(row: ObservedPayment, sentAt: number, { storeSetAhead }: Faults): boolean {
    const { key, resolution, firstThereAt, finalAt = 0 } = row;
    const lookedAt = this.verdicts.get(key);
    if (resolution === null || lookedAt === undefined || sentAt < lookedAt) return false;
    const wasSetAhead = storeSetAhead.some((at) => at >= firstThereAt && at <= finalAt);
    return sentAt < finalAt + (wasSetAhead ? this.leaseMs : 0);
  }
}
