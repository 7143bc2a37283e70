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
  const slow = shareService(deployment, { PROCESSOR_DELAY_MS: '1000' });
  const slowerThanLease = shareService(deployment, { LOCK_TTL_SECONDS: '1', PROCESSOR_DELAY_MS: '2500' });

  it.each([
    ['', () => service],
    [', where it takes a second', () => slow],
  ])(`make one payment of ${REQUESTS_AT_ONCE} requests at once on one key%s`, async (_where, of) => {
    const key = await generateKey(of().url);
    const answers = await payAtOnce(of().url, key, REQUESTS_AT_ONCE);
    const transactionId = expectOnePayment(answers);
    if (of() === slow) expect(answers.filter(({ status }) => status === 409).length).toBeGreaterThan(0);
    expectReplay(await pay(of().url, key), transactionId);
    await expectKeyValue(of().url, key, transactionId);
  });

  it(`make ${KEYS} payments of ${KEYS} keys whose every request is sent two to four times by 64 clients`, async () => {
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

  /** The `Retry-After` is as earlier payments took. */
  it('are refused with 409 for at most three seconds while one is under way, for any body and form of its key', async () => {
    const key = await generateKey(slow.url);
    const { conflict, finished } = await beginPayment(slow.url, key);
    const forms = [key, key.toUpperCase(), `"${key}"`, ` ${key} `].map((form) => pay(slow.url, form));
    const others = [pay(slow.url, key, { amount: '7', currency: 'EUR' }), ...forms];
    for (const answer of [conflict, ...(await Promise.all(others))]) expectInProgress(answer, 3);
    const transactionId = expectFirst(await finished);
    expectReplay(await pay(slow.url, key), transactionId);
  });

  it('are not found by payment-status and still read KEY GENERATED, until they are completed', async () => {
    const key = await generateKey(slow.url);
    const { finished } = await beginPayment(slow.url, key);
    const status = paymentStatus(slow.url, key);
    await expectKeyValue(slow.url, key, KEY_GENERATED);
    expectError(await status, 404, NO_PAYMENT);
    const transactionId = expectFirst(await finished);
    expectCompleted(await paymentStatus(slow.url, key), transactionId);
    await expectKeyValue(slow.url, key, transactionId);
  });

  it('stay locked to the end when they take longer than a lease, promise no more than it, and are paid once', async () => {
    const key = await generateKey(slowerThanLease.url);
    const { finished } = await beginPayment(slowerThanLease.url, key);
    expect(await repeatUntilDone(slowerThanLease.url, key, 1)).toBe(expectFirst(await finished));
  });
});
