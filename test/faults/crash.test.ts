import { expect, test } from 'vitest';
import { runFaults } from '../../proof/faults/run.js';
import { faultsOf, sigkillsOf, tableOf } from '../../proof/faults/tally.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { seedFrom } from '../../testkit/random.js';

/** `test/proof/faults.test.ts` has more kills, and other faults, on each deployment. */
const KILLS = 4;
const LIMIT_MS = 120_000;

test('the embedded service keeps everything acknowledged, with one id each, when it is killed under load', async () => {
  const { tally, violations } = await runFaults({
    deployment: 'embedded',
    totalMs: LIMIT_MS,
    // Even: the processor deduplicates, and nothing has to wait for an operator.
    seed: seedFrom('CRASH_SEED', 1) & ~1,
    only: ({ name }) => name === 'a service killed',
    isEnough: (sofar) => faultsOf(sofar) >= KILLS,
    clients: { payments: 8, transactions: 4 },
  });
  console.log(tableOf(tally));
  expectNoViolations(violations);
  expect(sigkillsOf(tally)).toBeGreaterThanOrEqual(KILLS);
  // Else the kills never hit anything, and the test has shown nothing.
  expect(tally.answers['0'], 'requests without an answer').toBeGreaterThan(0);
});
