import type { PaymentArea } from '#idempay/payments/payment-area.js';
import type { Faults } from '../faults.js';
import type { ObservedPayment } from '../observed.js';
import type { World } from '../world.js';
import type { Issued } from './clients.js';
import type { SimulatedProcessor } from './processor.js';

/** A person who asks the processor, and gives the verdict that is true where nothing can change it any more. */
export function createOperator(
  { simulation, processes }: World<PaymentArea>,
  processor: SimulatedProcessor,
  issued: readonly Issued[],
  leaseMs: number,
) {
  /** When an operator first made up their mind about a payment. */
  const verdicts = new Map<string, number>();
  return {
    async resolve(name: string): Promise<void> {
      const state = processor.verdictOn(name);
      const known = issued.find(({ key }) => key === name);
      if (state === undefined || known === undefined) return;
      if (!verdicts.has(name)) verdicts.set(name, simulation.time);
      const random = simulation.rng(`operator ${name}`);
      const verdict = { state, reason: 'the operator asked the processor' };
      const at = random.below(processes.size);
      const answer = await processes.call(at, random, `resolve ${name} as ${state}`, ({ records }) =>
        records.resolve(known.uuid, verdict),
      );
      simulation.note(typeof answer === 'string' ? answer : `the operator hears: ${answer.state}`);
    },

    /**
     * Sent between the operator's look at the processor and the arrival of the verdict: the operator cannot know of it. Or
     * within a lease after it, by an owner whose lease a clock that was set ahead had ended for all others.
     */
    couldNotKnow(row: ObservedPayment, sentAt: number, { storeSetAhead }: Faults): boolean {
      const { key, resolution, firstThereAt, finalAt = 0 } = row;
      const lookedAt = verdicts.get(key);
      if (resolution === null || lookedAt === undefined || sentAt < lookedAt) return false;
      const wasSetAhead = storeSetAhead.some((at) => at >= firstThereAt && at <= finalAt);
      return sentAt < finalAt + (wasSetAhead ? leaseMs : 0);
    },
  };
}
