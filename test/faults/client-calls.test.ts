import { expect, test } from 'vitest';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { runCallerCrashes } from '../../testkit/client-library/caller-crashes.js';
import { runFaultyCalls } from '../../testkit/client-library/faulty-calls.js';
import { runFaultyCreates } from '../../testkit/client-library/faulty-creates.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

/** `CLIENT_CALLS=200 CALLER_CRASHES=10 npx vitest run test/faults/client-calls` is a short run. */
const CALLS = Number(process.env.CLIENT_CALLS || 10_000);
/** Creates with keys of the client's own. */
const CREATES = CALLS / 5;
const CRASHES = Number(process.env.CALLER_CRASHES || 200);

describeDeployments('the client through a faulty network', (deployment) => {
  test('ends every call in success or a truthful error, and never charges one twice', WITHOUT_LIMIT, async () => {
    const { violations, tally } = await runFaultyCalls(deployment, CALLS, seedFrom('CLIENT_SEED'));
    console.log(deployment.name, JSON.stringify(tally));
    expectNoViolations(violations);
    expect(tally.calls).toBe(CALLS);
  });

  test('creates transactions with keys once or not at all, alone and in batches', WITHOUT_LIMIT, async () => {
    const { violations, tally } = await runFaultyCreates(deployment, CREATES, seedFrom('CLIENT_SEED'));
    console.log(deployment.name, JSON.stringify(tally));
    expectNoViolations(violations);
    expect(tally.creates).toBe(CREATES);
  });

  test.each([
    ['from the kept keys', 'key'],
    ['by the references', 'reference'],
  ] as const)('goes on %s when its caller is killed', WITHOUT_LIMIT, async (_, by) => {
    const { violations, tally } = await runCallerCrashes(deployment, CRASHES, seedFrom('CLIENT_SEED'), by);
    console.log(deployment.name, JSON.stringify(tally));
    expectNoViolations(violations);
    expect(tally.resumed).toBeGreaterThan(0);
  });
});
