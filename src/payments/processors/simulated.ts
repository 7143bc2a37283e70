import { type ChargeResult, CONTRACT_OF_ENDINGS, type ProcessorClient } from '../ports/processor.js';
import { SIMULATED } from '../values/processor-names.js';

const SUCCEEDED = { state: 'succeeded' } as const;
/** Nothing is charged outside this process, and an execution that charges late is fenced off by the row that the ending settles. */
const ENDED = { state: 'declined', reason: 'cancelled before it was charged' } as const;
const CUT: ChargeResult = { state: 'unknown', cause: 'the service ended before the simulated processing did' };

/**
 * The simulated processing of spec 2.3: every charge succeeds after `delayMs`. It has no effect outside this process, so
 * it has no record of earlier charges, a reference may be sent again for ever, and a send cannot outlive its lease.
 * A charge that is under way at `close` ends as unknown.
 */
export function createSimulatedProcessor(delayMs: number): ProcessorClient {
  const underWay = new Set<() => void>();
  let closed = false;
  return {
    traits: {
      name: SIMULATED,
      formerNames: [],
      typicalMs: delayMs,
      timeoutMs: 0,
      dedupMs: Number.POSITIVE_INFINITY,
      ...(delayMs === 0 && { certainResult: SUCCEEDED }),
    },
    isDown: false,
    movesMoney: false,
    contract: CONTRACT_OF_ENDINGS,
    async charge() {
      if (closed) return CUT;
      if (delayMs === 0) return SUCCEEDED;
      return new Promise((resolve) => {
        const end = (result: ChargeResult) => {
          clearTimeout(timer);
          underWay.delete(cut);
          resolve(result);
        };
        const cut = () => end(CUT);
        const timer = setTimeout(end, delayMs, SUCCEEDED);
        underWay.add(cut);
      });
    },
    async lookUp() {
      return { state: 'no record' };
    },
    // The ledger keeps the sum, and there is nothing else that a simulated charge could have left.
    async refund() {
      return closed ? CUT : SUCCEEDED;
    },
    async lookUpRefund() {
      return { state: 'no record' };
    },
    async end() {
      return ENDED;
    },
    async close() {
      closed = true;
      for (const cut of [...underWay]) cut();
    },
  };
}
