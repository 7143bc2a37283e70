import { setTimeout as delay } from 'node:timers/promises';
import type { Processor } from '../processor.js';

/**
 * The simulated processing of spec 2.3: every charge succeeds after `delayMs`. It has no effect outside this process, so
 * it has no record of earlier charges, a reference may be sent again for ever, and a send cannot outlive its lease.
 */
export function createSimulatedProcessor(delayMs: number): Processor {
  return {
    name: 'simulated',
    typicalMs: delayMs,
    sendLimitMs: 0,
    dedupMs: Number.POSITIVE_INFINITY,
    async charge() {
      if (delayMs > 0) await delay(delayMs);
      return { state: 'succeeded' };
    },
    async lookUp() {
      return { state: 'no record' };
    },
  };
}
