import { expect, it } from 'vitest';
import { describeDeployments } from '../support/deployments.js';
import { expectError } from '../support/error-body.js';
import { paymentStatus } from '../support/http-client.js';
import { expectReplay, NO_PAYMENT } from '../support/payment-answers.js';
import { shownPayment, untilFinished } from '../support/processor-payer.js';
import { expectPaid, expectUnknown, LEASE_MS, setProcessorScene } from '../support/processor-scene.js';
import { pause } from '../support/until.js';
import { untilPast } from '../support/until-past.js';

/** Twice the pause between two rounds of recovery, and some more. */
const TWO_ROUNDS_MS = 6_500;

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

  it('is asked less and less often by recovery, and not once per round for ever', async () => {
    const { url } = await scene.serve();
    await scene.processor.kill();
    const fresh = await scene.payer.newKey(url);
    const old = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, old));
    // As often as an outage of a minute would bring recovery to it; the next time is half a minute away.
    for (let attempt = 2; attempt <= 6; attempt += 1) expectUnknown(await scene.payer.repeat(url, old));
    const before = (await shownPayment(url, old))?.attempts as number;
    expectUnknown(await scene.payer.pay(url, fresh));
    await untilPast(TWO_ROUNDS_MS);

    // Else recovery was not at work meanwhile, and the test shows nothing.
    expect((await shownPayment(url, fresh))?.attempts).toBeGreaterThanOrEqual(2);
    expect(await shownPayment(url, old)).toMatchObject({ state: 'PROCESSING', attempts: before });

    await scene.processor.restart();
    for (const key of [old, fresh]) expect((await scene.payer.untilFinal(url, key)).status).toBe(200);
    await scene.judge();
  });
});
