import { Agent } from 'node:http';
import { expect, it, vi } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  givenPaid,
  KEY_GENERATED,
  NO_PAYMENT,
  repeatUntilDone,
} from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const REQUESTS_AT_ONCE = 500;
/** `CONCURRENT_KEYS=10000` for more; the fault suite pays with far more keys while processes are killed. */
const KEYS = Number(process.env.CONCURRENT_KEYS ?? 1_000);
const CLIENTS = 64;

/** Thousands of requests, on a machine that may be busy with other suites. */
vi.setConfig({ testTimeout: 120_000 });

/** So many repeats of one payment, each on a connection of its own, so that none waits for another on our side. */
async function payAtOnce(url: string, key: string, count: number): Promise<Answer[]> {
  const agent = new Agent({ maxSockets: count });
  try {
    return await Promise.all(Array.from({ length: count }, () => pay(url, key, undefined, { agent })));
  } finally {
    agent.destroy();
  }
}

/** Exactly one answer has the first text; every other is the 409 or the stored result (decision P13). Returns the id. */
function expectOnePayment(answers: readonly Answer[]): string {
  const [first, ...others] = answers.filter(({ text }) => text.includes('Payment processed successfully'));
  expect(others).toEqual([]);
  const transactionId = expectFirst(first as Answer);
  for (const answer of answers) {
    if (answer === first) continue;
    if (answer.status === 409) expectInProgress(answer);
    else expectReplay(answer, transactionId);
  }
  return transactionId;
}

describeDeployments('concurrent payments', (deployment) => {
  const service = shareService(deployment);

  it(`makes one payment of ${REQUESTS_AT_ONCE} requests at once on one key`, async () => {
    const key = await generateKey(service.url);
    const transactionId = expectOnePayment(await payAtOnce(service.url, key, REQUESTS_AT_ONCE));
    expectReplay(await pay(service.url, key), transactionId);
    expectCompleted(await paymentStatus(service.url, key), transactionId);
    await expectKeyValue(service.url, key, transactionId);
  });

  it(`makes ${KEYS} payments of ${KEYS} keys whose every request is sent two to four times by 64 clients`, async () => {
    const transactionIds = await inParallel(KEYS, CLIENTS, async (index) => {
      const key = await generateKey(service.url);
      const sent = Array.from({ length: 2 + (index % 3) }, () => pay(service.url, key));
      const transactionId = expectOnePayment(await Promise.all(sent));
      // Not held up by the 409 that its twin may have got: the payment is done once the first text was given.
      expectReplay(await pay(service.url, key), transactionId);
      return transactionId;
    });
    expect(new Set(transactionIds).size).toBe(KEYS);
  });
});

describeDeployments('a payment under way', (deployment) => {
  const service = shareService(deployment, { PROCESSOR_DELAY_MS: '1000' });

  it('is refused to repeats with 409, for any body and form of its key, then replayed', async () => {
    const key = await generateKey(service.url);
    const { conflict, finished } = await beginPayment(service.url, key);
    const forms = [key.toUpperCase(), `"${key}"`, ` ${key} `].map((form) => pay(service.url, form));
    const repeats = [pay(service.url, key), pay(service.url, key, { amount: '7', currency: 'EUR' }), ...forms];
    for (const answer of [conflict, ...(await Promise.all(repeats))]) expectInProgress(answer);
    const transactionId = expectFirst(await finished);
    expectReplay(await pay(service.url, key), transactionId);
  });

  it('is not found by payment-status and still reads KEY GENERATED, until it is completed', async () => {
    const key = await generateKey(service.url);
    const { finished } = await beginPayment(service.url, key);
    const [status] = await Promise.all([
      paymentStatus(service.url, key),
      expectKeyValue(service.url, key, KEY_GENERATED),
    ]);
    expectError(status, 404, NO_PAYMENT);
    const transactionId = expectFirst(await finished);
    expectCompleted(await paymentStatus(service.url, key), transactionId);
    await expectKeyValue(service.url, key, transactionId);
  });

  it('locks its own key only', async () => {
    const { finished } = await beginPayment(service.url, await generateKey(service.url));
    const { transactionId } = await givenPaid(service.url);
    expect(expectFirst(await finished)).not.toBe(transactionId);
  });

  it('asks a repeat to come back in one to three seconds, as earlier payments took', async () => {
    const key = await generateKey(service.url);
    const { conflict, finished } = await beginPayment(service.url, key);
    expectInProgress(conflict, 3);
    expectFirst(await finished);
  });

  it(`refuses the others of ${REQUESTS_AT_ONCE} requests at once with 409, and the repeat then succeeds`, async () => {
    const key = await generateKey(service.url);
    const answers = await payAtOnce(service.url, key, REQUESTS_AT_ONCE);
    const transactionId = expectOnePayment(answers);
    expect(answers.filter(({ status }) => status === 409).length).toBeGreaterThan(0);
    expectReplay(await pay(service.url, key), transactionId);
  });

  it('does not hold up others: many keys side by side, each repeated until it is done', async () => {
    const transactionIds = await inParallel(CLIENTS, CLIENTS, async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);
      const replayed = await repeatUntilDone(service.url, key);
      expect(replayed).toBe(expectFirst(await finished));
      return replayed;
    });
    expect(new Set(transactionIds).size).toBe(CLIENTS);
  });
});

describeDeployments('a payment that takes longer than its lease', (deployment) => {
  const service = shareService(deployment, { LOCK_TTL_SECONDS: '1', PROCESSOR_DELAY_MS: '2500' });

  it('stays locked to the end, never promises more than the lease, and is paid once', async () => {
    const key = await generateKey(service.url);
    const { finished } = await beginPayment(service.url, key);
    const replayed = await repeatUntilDone(service.url, key, 1);
    expect(replayed).toBe(expectFirst(await finished));
  });
});
