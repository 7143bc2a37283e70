import { expect, test } from 'vitest';
import { runFaults } from '../../proof/faults/run.js';
import { faultsOf, sigkillsOf, type Tally, tableOf } from '../../proof/faults/tally.js';
import { expectNoViolations } from '../../testkit/checkers/expect-no-violations.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { beginPayment, expectCompleted, expectKeyValue, expectReplay } from '../../testkit/client/payment-answers.js';
import { untilFinished } from '../../testkit/client/processor-payer.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { seedFrom } from '../../testkit/random.js';

/** `test/proof/faults.test.ts` does more, and more than this, on each deployment. */
const KILLS = 4;
const LIMIT_MS = 120_000;
/** No test waits for it: a payment that nobody recovers is not finished within the test. */
const LOCK_TTL_SECONDS = '120';
/** A payment that is never over while the test looks. */
const ENDLESS = { PROCESSOR_DELAY_MS: '60000', LOCK_TTL_SECONDS };

test(
  'the embedded service keeps everything acknowledged, with one id each, when it is killed under load',
  async () => {
    const isEnough = (sofar: Tally) => faultsOf(sofar) >= KILLS;
    const { tally, violations } = await runFaults({
      deployment: 'embedded',
      totalMs: LIMIT_MS,
      // Even: the processor deduplicates, and nothing has to wait for an operator.
      seed: seedFrom('CRASH_SEED') & ~1,
      only: ({ name }) => name === 'a service killed',
      isEnough,
      clients: { payments: 8, transactions: 4 },
    });
    console.log(tableOf(tally));
    expectNoViolations(violations);
    expect(sigkillsOf(tally)).toBeGreaterThanOrEqual(KILLS);
    // Else the kills never hit anything, and the test has shown nothing.
    expect(tally.answers['0'], 'requests without an answer').toBeGreaterThan(0);
  },
  2 * LIMIT_MS,
);

test('an interrupted payment is finished by a later start, with one id and only repeats, whatever its lease says (P13)', async () => {
  const stores = await embedded.open();
  try {
    const first = await stores.start(ENDLESS);
    const key = await generateKey(first.url);
    const { finished } = await beginPayment(first.url, key);
    const cut = expect(finished, 'the payment was over before the kill').rejects.toThrow();
    // The claim was handed to the store before this write, and commits happen in order.
    await generateKey(first.url);
    await first.kill();
    await cut;

    const between = await stores.start(ENDLESS);
    const early = await paymentStatus(between.url, key);
    await between.kill();

    const last = await stores.start({ LOCK_TTL_SECONDS });
    const id = (await untilFinished(last.url, key)).transactionId as string;
    // The process in between may know the outcome already; what it answered once must stay.
    if (early.status === 200) expectCompleted(early, id);
    await expectKeyValue(last.url, key, id);
    expectReplay(await pay(last.url, key), id);
    await last.kill();
    const { url } = await stores.start();
    expectCompleted(await paymentStatus(url, key), id);
    expectReplay(await pay(url, key), id);
  } finally {
    await stores.close();
  }
}, 90_000);
