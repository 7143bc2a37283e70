import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { resolvePayment } from '../../testkit/client/payment-records.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectNotSent,
  expectUnknown,
  LEASE_MS,
  SENT_ONCE,
  setProcessorEnvironment,
  TIMEOUT_MS,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { pause } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

describeDeployments('a processor that is down', (deployment) => {
  const environment = setProcessorEnvironment(deployment);

  it('for longer than the lease costs a payment nothing but time: 503 on each repeat, and one charge when it is back', async () => {
    const { payer, processor } = environment;
    const [one, other] = await environment.serveTwo();
    await processor.kill();
    const [repeated, left] = [await payer.newKey(one.url), await payer.newKey(one.url)];
    for (const key of [repeated, left]) expectNotSent(await payer.pay(one.url, key));

    const upAt = performance.now() + LEASE_MS + 500;
    while (performance.now() < upAt) {
      for (const { url } of [one, other]) expectNotSent(await payer.repeat(url, repeated));
      await pause(LEASE_MS / 4);
    }
    expectError(await paymentStatus(one.url, repeated), 404, NO_PAYMENT);
    expect(await shownPayment(other.url, left)).toMatchObject({ state: 'PROCESSING' });

    // Nothing was sent so far: whoever takes them over sends them.
    await processor.restart();
    await environment.expectRepeatPays(other.url, repeated, one.url);
    const { transactionId } = await untilFinished(one.url, left);
    expectReplay(await payer.pay(other.url, left), transactionId as string);
    await environment.check();
  });

  /**
   * Bug: a charge for which no connection could be made was unknown like any other, and where nothing may be sent twice
   * nobody sent it any more. Fix: the row says that nothing was sent.
   */
  it('leaves nothing to an operator where nothing may be sent twice: what was never sent is sent when it is back', async () => {
    const { payer, processor } = environment;
    const [one, other] = await environment.serveTwo(SENT_ONCE);
    await processor.behave({ deduplicate: false });
    await processor.kill();
    const keys = [await payer.newKey(one.url), await payer.newKey(one.url), await payer.newKey(one.url)];
    for (const key of keys) expectNotSent(await payer.pay(one.url, key));
    const [repeated, ...left] = keys as [string, string, string];
    expectNotSent(await payer.repeat(other.url, repeated));
    // The mark is in the row: no process need remember it.
    await environment.stop();

    const { url } = await environment.serve(SENT_ONCE);
    expectNotSent(await payer.repeat(url, repeated));
    expectError(await resolvePayment(url, left[0], { outcome: 'declined', reason: 'cancelled' }), 409);
    await processor.restart({ deduplicate: false });
    await payer.untilFinal(url, repeated);
    await environment.expectRepeatPays(url, repeated);
    for (const key of left) expect(await untilFinished(url, key)).toMatchObject({ state: 'COMPLETED' });
    await environment.check();
  });

  /**
   * Bug: after a few repeats during a short outage, recovery left the payment alone for a minute. Cause: its patience grew
   * with the attempts, and each repeat is one. Fix: it grows with the payment's age.
   */
  it('does not keep recovery from a payment for long, however often its payer repeated it meanwhile', async () => {
    const { payer, processor } = environment;
    const { url } = await environment.serve();
    await processor.kill();
    const key = await payer.newKey(url);
    expectNotSent(await payer.pay(url, key));
    for (let attempt = 2; attempt <= 9; attempt += 1) expectNotSent(await payer.repeat(url, key));
    await processor.restart();
    expect(await untilFinished(url, key)).toMatchObject({ state: 'COMPLETED' });
    await environment.check();
  });
});

describeDeployments('a payment over the network', (deployment) => {
  const environment = setProcessorEnvironment(deployment);

  it('whose reply comes after another process has finished it is not changed by that reply', async () => {
    const { payer, processor } = environment;
    const [{ url }, other] = await environment.serveTwo();
    const replyLatencyMs = TIMEOUT_MS + 500;
    await processor.behave({ replyLatencyMs });
    const key = await payer.newKey(url);
    const first = payer.pay(url, key);
    await untilCharged(processor, key);
    const chargedAt = performance.now();
    expectUnknown(await first);

    const id = expectFirst(await payer.pay(other.url, key));
    const finished = await shownPayment(url, key);
    await untilPast(chargedAt + replyLatencyMs - performance.now());
    expectReplay(await payer.pay(url, key), id);
    expect(await shownPayment(url, key)).toEqual(finished);
    await environment.check();
  });

  it('that is at work for longer than the time-out is 504 on each repeat, then 200', async () => {
    const { payer, processor } = environment;
    const [{ url }, other] = await environment.serveTwo();
    await processor.behave({ latencyMs: 2.5 * TIMEOUT_MS });
    const key = await payer.newKey(url);
    expectUnknown(await payer.pay(url, key));
    for (const each of [other.url, url]) expectUnknown(await payer.repeat(each, key));
    expect(await processor.chargesOf(key), 'charged before the repeats were answered').toEqual([]);

    expect((await payer.untilFinal(url, key)).status).toBe(200);
    expectReplay(await payer.pay(other.url, key));
    await environment.check();
  });
});
