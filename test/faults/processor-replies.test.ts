import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectCompleted,
  expectFirst,
  expectKeyValue,
  expectReplay,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectPaid,
  expectUnknown,
  setProcessorScene,
  TIMEOUT_MS,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Far longer than the time-out: whoever waits for it has waited for nothing. */
const ENDLESS_MS = 600_000;

describeDeployments('the reply to a charge', (deployment) => {
  const scene = setProcessorScene(deployment);

  describe('that is lost', () => {
    it('is a 504, and the repeat looks the charge up and gives the first answer', async () => {
      const [{ url }, other] = await scene.serveTwo();
      await scene.processor.behave({ lostReplyRate: 1 });
      const key = await scene.payer.newKey(url);
      expectUnknown(await scene.payer.pay(url, key));
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
      expect(await shownPayment(url, key)).toMatchObject({ state: 'PROCESSING', attempts: 1 });

      const id = expectFirst(await scene.payer.pay(other.url, key));
      expectReplay(await scene.payer.pay(url, key), id);
      expectCompleted(await paymentStatus(url, key), id);
      await expectKeyValue(url, key, id);
      await scene.judge();
    });

    it('is found out by recovery when nobody repeats, and then there are only repeats (P13)', async () => {
      const { url } = await scene.serve();
      await scene.processor.behave({ lostReplyRate: 1 });
      const key = await scene.payer.newKey(url);
      expectUnknown(await scene.payer.pay(url, key));

      const { transactionId } = await untilFinished(url, key);
      const id = expectReplay(await scene.payer.pay(url, key), transactionId as string);
      expectCompleted(await paymentStatus(url, key), id);
      await expectKeyValue(url, key, id);
      await scene.judge();
    });
  });

  it('that comes after the time-out, and after another process has finished the payment, changes nothing', async () => {
    const [{ url }, other] = await scene.serveTwo();
    const replyLatencyMs = TIMEOUT_MS + 500;
    await scene.processor.behave({ replyLatencyMs });
    const key = await scene.payer.newKey(url);
    const first = scene.payer.pay(url, key);
    await untilCharged(scene.processor, key);
    const chargedAt = performance.now();
    expectUnknown(await first);

    const id = expectFirst(await scene.payer.pay(other.url, key));
    const finished = await shownPayment(url, key);
    await untilPast(chargedAt + replyLatencyMs - performance.now());
    expectReplay(await scene.payer.pay(url, key), id);
    expect(await shownPayment(url, key)).toEqual(finished);
    await scene.judge();
  });

  it('that never comes, because the processor was killed after it had charged, is looked up when it is back', async () => {
    const { url } = await scene.serve();
    await scene.processor.behave({ replyLatencyMs: ENDLESS_MS });
    const key = await scene.payer.newKey(url);
    const first = scene.payer.pay(url, key);
    await untilCharged(scene.processor, key);
    await scene.processor.kill();
    expectUnknown(await first);
    expectUnknown(await scene.payer.repeat(url, key));

    await scene.processor.restart({ replyLatencyMs: 0 });
    const id = expectPaid(await scene.payer.repeat(url, key));
    expectReplay(await scene.payer.pay(url, key), id);
    await scene.judge();
  });

  it('that never comes, because the processor was killed before it charged, is followed by one charge', async () => {
    const { url } = await scene.serve();
    await scene.processor.behave({ latencyMs: ENDLESS_MS });
    const key = await scene.payer.newKey(url);
    const first = scene.payer.pay(url, key);
    await untilAtWork(scene.processor, key);
    await scene.processor.kill();
    expectUnknown(await first);

    await scene.processor.restart({ latencyMs: 0 });
    const id = expectPaid(await scene.payer.repeat(url, key));
    expectReplay(await scene.payer.pay(url, key), id);
    await scene.judge();
  });

  it('that comes from a processor still at work for longer than the time-out is 504 on each repeat, then 200', async () => {
    const [{ url }, other] = await scene.serveTwo();
    await scene.processor.behave({ latencyMs: 2.5 * TIMEOUT_MS });
    const key = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, key));
    expectUnknown(await scene.payer.repeat(other.url, key));
    expectUnknown(await scene.payer.repeat(url, key));
    expect(await scene.processor.chargesOf(key), 'charged before the repeats were answered').toEqual([]);

    const last = await scene.payer.untilFinal(url, key);
    expect(last.status).toBe(200);
    expectReplay(await scene.payer.pay(other.url, key));
    await scene.judge();
  });

  it('is answered by a service that is told to end while the charge is in flight, and its exit code is 0', async () => {
    const service = await scene.serve();
    await scene.processor.behave({ latencyMs: TIMEOUT_MS / 2 });
    const key = await scene.payer.newKey(service.url);
    const paying = scene.payer.pay(service.url, key);
    await untilAtWork(scene.processor, key);
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    const id = expectFirst(await paying);

    const { url } = await scene.serve();
    expectReplay(await scene.payer.pay(url, key), id);
    await scene.judge();
  });

  it('is "failed" (500): nothing was charged, which only a look-up can tell, and the repeat charges once', async () => {
    const { url } = await scene.serve();
    await scene.processor.behave({ failRate: 1 });
    const key = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, key));
    expectUnknown(await scene.payer.repeat(url, key));
    await scene.processor.behave({ failRate: 0 });
    const id = expectPaid(await scene.payer.repeat(url, key));
    expectReplay(await scene.payer.pay(url, key), id);
    await scene.judge();
  });
});
