import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { paymentStatus } from '../../testkit/client/http-client.js';
import { expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectNotSent,
  expectPaid,
  LEASE_MS,
  resolvePayment,
  setProcessorScene,
} from '../../testkit/deployments/processor-environment.js';
import { pause } from '../../testkit/time/until.js';

describeDeployments('a processor that is down', (deployment) => {
  const scene = setProcessorScene(deployment);

  it('for longer than the lease costs a payment nothing but time: 503 on each repeat, and one charge when it is back', async () => {
    const [one, other] = await scene.serveTwo();
    await scene.processor.kill();
    const repeated = await scene.payer.newKey(one.url);
    const left = await scene.payer.newKey(one.url);
    for (const key of [repeated, left]) expectNotSent(await scene.payer.pay(one.url, key));

    const upAt = performance.now() + LEASE_MS + 500;
    while (performance.now() < upAt) {
      for (const { url } of [one, other]) expectNotSent(await scene.payer.repeat(url, repeated));
      await pause(LEASE_MS / 4);
    }
    expectError(await paymentStatus(one.url, repeated), 404, NO_PAYMENT);
    expect(await shownPayment(other.url, left)).toMatchObject({ state: 'PROCESSING' });

    // Nothing was sent so far: whoever takes them over sends them.
    await scene.processor.restart();
    const id = expectPaid(await scene.payer.repeat(other.url, repeated));
    expectReplay(await scene.payer.pay(one.url, repeated), id);
    const { transactionId } = await untilFinished(one.url, left);
    expectReplay(await scene.payer.pay(other.url, left), transactionId as string);
    await scene.judge();
  });

  /**
   * Bug: a charge for which no connection could be made was unknown like any other, and where nothing may be sent twice
   * nobody sent it any more. Fix: the row says that nothing was sent.
   */
  it('leaves nothing to an operator where nothing may be sent twice: what was never sent is sent when it is back', async () => {
    const settings = { PROCESSOR_DEDUP_SECONDS: '0' };
    const [one, other] = await scene.serveTwo(settings);
    await scene.processor.behave({ deduplicate: false });
    await scene.processor.kill();
    const repeated = await scene.payer.newKey(one.url);
    const [left, alsoLeft] = [await scene.payer.newKey(one.url), await scene.payer.newKey(one.url)];
    for (const key of [repeated, left, alsoLeft]) expectNotSent(await scene.payer.pay(one.url, key));
    expectNotSent(await scene.payer.repeat(other.url, repeated));
    // The mark is in the row: no process need remember it.
    await Promise.all([one.kill(), other.kill()]);

    const { url } = await scene.serve(settings);
    expectNotSent(await scene.payer.repeat(url, repeated));
    const early = await resolvePayment(url, left, 'declined', 'cancelled');
    expectError(early, 409);
    await scene.processor.restart({ deduplicate: false });
    const id = expectPaid(await scene.payer.untilFinal(url, repeated));
    expectReplay(await scene.payer.pay(url, repeated), id);
    for (const key of [left, alsoLeft]) expect(await untilFinished(url, key)).toMatchObject({ state: 'COMPLETED' });
    await scene.judge();
  });

  /**
   * Bug: after a few repeats during a short outage, recovery left the payment alone for a minute. Cause: its patience grew
   * with the attempts, and each repeat is one. Fix: it grows with the payment's age.
   */
  it('does not keep recovery from a payment for long, however often its payer repeated it meanwhile', async () => {
    const { url } = await scene.serve();
    await scene.processor.kill();
    const key = await scene.payer.newKey(url);
    expectNotSent(await scene.payer.pay(url, key));
    for (let attempt = 2; attempt <= 9; attempt += 1) expectNotSent(await scene.payer.repeat(url, key));
    await scene.processor.restart();
    expect(await untilFinished(url, key)).toMatchObject({ state: 'COMPLETED' });
    await scene.judge();
  });
});
