import { afterEach, beforeEach, expect, it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay, untilPaid } from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { paymentText, sendAndVanish } from '../../testkit/client/raw-http.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { expectUnknown } from '../../testkit/deployments/processor-environment.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';

const CHARGE_MS = 1_000;
/** Longer than any test. */
const ENDLESS_MS = '600000';
const SHORT_DRAIN_MS = 200;
const DEADLINE_MS = 10_000;

/**
 * Bug: a drain waited for connections, so a payment whose client had disconnected was cut: nothing was logged, row and lock
 * stayed leased, and a repeat after the restart got 409. Cause: only recovery's attempts were awaited. Fix: the drain waits
 * for every request under way, and what it must cut is given up while the stores are still open.
 */
describeDeployments('a drain', (deployment) => {
  let stores: Stores;
  beforeEach(async () => {
    stores = await deployment.open();
  });
  afterEach(() => stores.close());

  async function untilClaimed({ url }: ServiceInProcess, key: string): Promise<string> {
    const { transactionId } = await until('the payment to be claimed', DEADLINE_MS, async () => {
      const payment = await shownPaymentOf(url, key);
      return payment.state === 'PROCESSING' && payment;
    });
    return transactionId as string;
  }

  /** A claimed payment whose client has disconnected. */
  async function givenPaymentWithoutClient(service: ServiceInProcess) {
    const key = await generateKey(service.url);
    await sendAndVanish(service.port, paymentText(key));
    return { key, transactionId: await untilClaimed(service, key) };
  }

  it('waits for a payment whose client has disconnected, so that a restart repeats it', async () => {
    const service = await stores.serve({ PROCESSOR_DELAY_MS: `${CHARGE_MS}` });
    const { key, transactionId } = await givenPaymentWithoutClient(service);
    await service.stop();

    const next = await stores.serve();
    expect(await shownPaymentOf(next.url, key)).toMatchObject({ state: 'COMPLETED', attempts: 1 });
    expectReplay(await pay(next.url, key), transactionId);
  });

  it('that must cut payments gives them up and names them in the log, and repeats pay them at once', async () => {
    const service = await stores.serve({ PROCESSOR_DELAY_MS: ENDLESS_MS });
    const cut = await givenPaymentWithoutClient(service);
    const key = await generateKey(service.url);
    const answer = pay(service.url, key);
    const transactionId = await untilClaimed(service, key);

    await service.stop(SHORT_DRAIN_MS);
    expectUnknown(await answer);
    const named = service.logs.filter(({ msg }) => msg === 'the outcome of a payment is not known yet');
    expect(named.map((line) => line.transactionId).sort()).toEqual([cut.transactionId, transactionId].sort());

    const next = await stores.serve();
    for (const each of [cut.key, key]) expect((await pay(next.url, each)).status).toBe(200);
  });

  it('that must cut a charge over the network gives it up, and the repeat looks it up', async () => {
    const processor = await startReferenceProcessor({ behaviour: { latencyMs: CHARGE_MS } });
    try {
      const service = await stores.serve({ PROCESSOR_URL: processor.url });
      const { key } = await givenPaymentWithoutClient(service);
      await service.stop(SHORT_DRAIN_MS);

      const next = await stores.serve({ PROCESSOR_URL: processor.url });
      await untilPaid(next.url, key);
      expect(await processor.chargesOf(key)).toHaveLength(1);
    } finally {
      await stores.close();
      await processor.close();
    }
  });
});
