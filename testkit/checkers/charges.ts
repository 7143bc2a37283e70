import { expect } from 'vitest';
import { findPayment, type Payer } from '../client/processor-payer.js';
import type { ReferenceProcessor } from '../processes/reference-processor.js';
import { expectNoViolations } from './expect-no-violations.js';
import { checkPayments } from './payments.js';

/**
 * The final check of every test with a real processor: compares its charge log with the answers to the payer and with what
 * the service shows. `unresolved` names the keys whose payments the test leaves PROCESSING.
 */
export async function expectChargedOnce(
  processor: Pick<ReferenceProcessor, 'charges'>,
  payer: Payer,
  url: string,
  leaseMs: number,
  unresolved: readonly string[] = [],
): Promise<void> {
  // Every other answer the test asserts by itself.
  const keys = payer.keys.map((key) => ({ ...key, exchanges: key.exchanges.filter(({ outcome }) => outcome) }));
  const shown = await Promise.all(keys.map(({ key }) => findPayment(url, key)));
  const kept = shown.flatMap((payment) => payment ?? []);
  const resolved = kept.filter(({ resolution }) => resolution !== null);
  const log = await processor.charges();
  const violations = checkPayments({
    keys,
    // The processor may have charged for other tests too.
    charges: log.filter(({ reference }) => keys.some(({ key }) => key === reference)),
    kept,
    disturbances: [],
    leaseMs,
    verdicts: new Set(resolved.map(({ idempotencyKey }) => idempotencyKey)),
    unresolved: new Set(unresolved),
  });
  expectNoViolations(violations);
  expect(new Set(log.map(({ transactionId }) => transactionId)).size, 'transaction ids in the log').toBe(log.length);
}
