import type { ProcessorClient } from '../payments/ports/processor.js';
import type { FakeCharge } from './fake-exchange.js';

/** Its answer to a payment that it was not asked for before. `unknown`: it charges, and its reply is lost. */
export type FakeProcessing = { readonly decline: string } | 'unknown' | undefined;

export interface FakeProcessor extends ProcessorClient {
  readonly charges: FakeCharge[];
  /** The fake processor knows nothing of these payments, so that an operator can resolve them. */
  readonly silentAbout: Set<string>;
}

/** Named as the simulated one. `next`: of the request that is charged for. */
export function createFakeProcessor(next: () => FakeProcessing): FakeProcessor {
  const charges: FakeCharge[] = [];
  const declined = new Map<string, string>();
  const silentAbout = new Set<string>();
  return {
    traits: { name: 'simulated', formerNames: [], typicalMs: 0, timeoutMs: 0, dedupMs: Number.POSITIVE_INFINITY },
    isDown: false,
    movesMoney: false,
    charges,
    silentAbout,
    async charge({ key, transactionId, amount, currency, content }) {
      const processing = next();
      if (typeof processing === 'object') {
        declined.set(key, processing.decline);
        return { state: 'declined', reason: processing.decline };
      }
      charges.push({ key, transactionId, amount, currency, ...content });
      return processing ? { state: 'unknown', cause: 'the reply was lost' } : { state: 'succeeded' };
    },
    async lookUp(key) {
      if (silentAbout.has(key)) return { state: 'unknown', cause: 'it does not know' };
      const reason = declined.get(key);
      if (reason !== undefined) return { state: 'declined', reason };
      return { state: charges.some((charge) => charge.key === key) ? 'succeeded' : 'no record' };
    },
    async close() {},
  };
}
