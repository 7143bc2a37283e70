import { expect, test } from 'vitest';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { runCallerCrashes } from '../../testkit/client-library/caller-crashes.js';
import { runFaultyCalls } from '../../testkit/client-library/faulty-calls.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { seedFrom } from '../../testkit/random.js';

/** The short form of faults/client-calls, which has the numbers that count. */
const CALLS = 80;
const CRASHES = 4;
/** Keys expire before their payment is resumed, with so few calls too. */
const SHORT_KEYS = { IDEMPOTENCY_TTL_SECONDS: '2' };

test('the client ends every call through a faulty network in success or a truthful error', async () => {
  const { violations, tally } = await runFaultyCalls(embedded, CALLS, seedFrom('CLIENT_SEED'), SHORT_KEYS);
  expectNoViolations(violations);
  expect(tally.calls).toBe(CALLS);
});

test.each([
  ['from the keys that it kept', 'key'],
  ['by the references of its orders, for which it kept nothing', 'reference'],
] as const)('a caller that is killed goes on %s', async (_, by) => {
  const { violations, tally } = await runCallerCrashes(embedded, CRASHES, seedFrom('CLIENT_SEED'), by);
  expectNoViolations(violations);
  expect(tally.resumed).toBeGreaterThan(0);
});
