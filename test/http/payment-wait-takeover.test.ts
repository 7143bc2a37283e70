import { beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, transactionIdOf } from '../../testkit/client/http-client.js';
import {
  AT_ONCE_MS,
  beginPayment,
  expectFirst,
  expectReplay,
  expectWaited,
  LONG_WAIT,
  payPreferring,
  timed,
  untilPaid,
} from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { DEPLOYMENTS, describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { type Behaviour, lookUpCharge } from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any test, so that only a test that ends its service sees the end. */
const ENDLESS_MS = 600_000;
const REACHED_DEADLINE_MS = 10_000;
const LEASE = { LOCK_TTL_SECONDS: '3' };

async function expectCompletedAs(url: string, key: string, answer: Answer): Promise<number> {
  const { state, transactionId, attempts } = await shownPaymentOf(url, key);
  expect({ state, transactionId }).toEqual({ state: 'COMPLETED', transactionId: transactionIdOf(answer) });
  return attempts;
}

describeDeployments('a request that waits for an attempt that ends without an outcome', (deployment) => {
  const shared = shareProcessedService(deployment, {}, { PROCESSOR_TIMEOUT_MS: '1500', LOCK_TTL_SECONDS: '4' });

  /** A payment whose charge the processor treats so, a duplicate that waits for it, and all later charges as usual. */
  async function givenWaiting(behaviour: Partial<Behaviour>) {
    const { url, processor } = shared();
    const key = await generateKey(url);
    await processor.behave(behaviour);
    const { finished } = await beginPayment(url, key);
    const duplicate = timed(payPreferring(url, key, LONG_WAIT));
    // A charge keeps the behaviour that it found.
    await until('the charge has reached the processor', REACHED_DEADLINE_MS, async () => {
      return (await lookUpCharge(processor.url, key)).status !== 404;
    });
    await processor.behave({ latencyMs: 0, replyLatencyMs: 0, lostReplyRate: 0 });
    expectError(await finished, 504);
    const waited = await duplicate;
    expectWaited(waited.answer, LONG_WAIT);
    return { url, processor, key, ...waited };
  }

  it('begins an attempt of its own, which finds the charge whose reply was lost', async () => {
    const { url, processor, key, answer } = await givenWaiting({ replyLatencyMs: 1_000, lostReplyRate: 1 });
    expect(answer.status, answer.text).toBe(200);
    expect(await expectCompletedAs(url, key, answer)).toBeGreaterThanOrEqual(2);
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });

  it('is answered that its own attempt did not find out either, and a later one does', async () => {
    const { url, processor, key, answer, tookMs } = await givenWaiting({ latencyMs: 4_000 });
    expectError(answer, 504);
    expect(tookMs).toBeLessThan(AT_ONCE_MS);
    await expectCompletedAs(url, key, await untilPaid(url, key));
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });
});

const SHARED = DEPLOYMENTS.filter(({ name }) => name !== 'embedded');

describe.each(SHARED)('a request that waits elsewhere ($name)', (deployment) => {
  const shared = shareService(deployment, { PROCESSOR_DELAY_MS: '2000', ...LEASE });
  let url: string;
  beforeAll(async () => {
    ({ url } = await shared.stores.serve({ PROCESSOR_DELAY_MS: '200', ...LEASE }));
  });

  it('gets the result of another process', async () => {
    const key = await generateKey(shared.url);
    const { finished } = await beginPayment(shared.url, key);
    const waited = await Promise.all([1, 2, 3].map(() => payPreferring(url, key, LONG_WAIT)));
    const transactionId = expectFirst(await finished);
    for (const answer of waited) {
      expectReplay(answer, transactionId);
      expectWaited(answer, LONG_WAIT);
    }
  });

  it('finishes the payment of a process that was killed', async () => {
    const key = await generateKey(shared.url);
    const killed = await shared.stores.start({ PROCESSOR_DELAY_MS: `${ENDLESS_MS}`, ...LEASE });
    const { finished } = await beginPayment(killed.url, key);
    finished.catch(() => {});
    const waiting = payPreferring(url, key, LONG_WAIT);
    await killed.kill();
    const { answer, tookMs } = await timed(waiting);
    expect(answer.status, answer.text).toBe(200);
    expectWaited(answer, LONG_WAIT);
    expect(tookMs).toBeLessThan(3_000 + AT_ONCE_MS);
    await expectCompletedAs(url, key, answer);
  });
});
