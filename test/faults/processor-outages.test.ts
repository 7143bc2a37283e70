import { expect, it } from 'vitest';
import { describeDeployments } from '../support/deployments.js';
import { expectError } from '../support/error-body.js';
import { paymentStatus } from '../support/http-client.js';
import { expectReplay, NO_PAYMENT } from '../support/payment-answers.js';
import { shownPayment, untilFinished } from '../support/processor-payer.js';
import { expectPaid, expectUnknown, LEASE_MS, setProcessorScene } from '../support/processor-scene.js';
import { pause } from '../support/until.js';

describeDeployments('a processor that is down', (deployment) => {
  const scene = setProcessorScene(deployment);

  it('for longer than the lease costs a payment nothing but time: 504 on each repeat, and one charge when it is back', async () => {
    const [one, other] = await scene.serveTwo();
    await scene.processor.kill();
    const repeated = await scene.payer.newKey(one.url);
    const left = await scene.payer.newKey(one.url);
    for (const key of [repeated, left]) expectUnknown(await scene.payer.pay(one.url, key));

    const upAt = performance.now() + LEASE_MS + 500;
    while (performance.now() < upAt) {
      for (const { url } of [one, other]) expectUnknown(await scene.payer.repeat(url, repeated));
      await pause(LEASE_MS / 4);
    }
    expectError(await paymentStatus(one.url, repeated), 404, NO_PAYMENT);
    expect(await shownPayment(other.url, left)).toMatchObject({ state: 'PROCESSING' });

    // Never charged so far, and well within PROCESSOR_DEDUP_SECONDS: whoever takes them over sends them.
    await scene.processor.restart();
    const id = expectPaid(await scene.payer.repeat(other.url, repeated));
    expectReplay(await scene.payer.pay(one.url, repeated), id);
    const { transactionId } = await untilFinished(one.url, left);
    expectReplay(await scene.payer.pay(other.url, left), transactionId as string);
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
    expectUnknown(await scene.payer.pay(url, key));
    for (let attempt = 2; attempt <= 9; attempt += 1) expectUnknown(await scene.payer.repeat(url, key));
    await scene.processor.restart();
    expect(await untilFinished(url, key)).toMatchObject({ state: 'COMPLETED' });
    await scene.judge();
  });
});
