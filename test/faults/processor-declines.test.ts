import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectKeyValue, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { expectUnknown, setProcessorScene } from '../../testkit/deployments/processor-environment.js';

const DECLINED = { status: 402, error: 'Payment Required', message: 'Payment declined: insufficient funds' };

/** Decisions P11: the first time and, as a repeat, ever after. */
function expectDeclined(answer: Answer, replayed: boolean): void {
  expectError(answer, 402, DECLINED.message);
  expect(answer.json()).toEqual(DECLINED);
  expect(answer.headers['idempotent-replayed']).toBe(replayed ? 'true' : undefined);
  expect(answer.headers['cache-control']).toBe('no-store');
}

describeDeployments('a payment that the processor declines', (deployment) => {
  const scene = setProcessorScene(deployment);

  async function expectFinal(url: string, key: string): Promise<void> {
    expectDeclined(await scene.payer.pay(url, key), true);
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    await expectKeyValue(url, key, 'DECLINED');
    expect(await shownPayment(url, key)).toMatchObject({ state: 'DECLINED', reason: 'insufficient funds' });
  }

  it('is 402 with the reason, on every repeat too, and is not found by payment-status', async () => {
    const [{ url }, other] = await scene.serveTwo();
    await scene.processor.behave({ declineRate: 1 });
    const key = await scene.payer.newKey(url);
    expectDeclined(await scene.payer.pay(url, key), false);
    await expectFinal(url, key);
    await expectFinal(other.url, key);
    await scene.judge();
  });

  it('stays declined when the processor would take it now, also after a restart, while another key is charged', async () => {
    const before = await scene.serve();
    await scene.processor.behave({ declineRate: 1 });
    const key = await scene.payer.newKey(before.url);
    expectDeclined(await scene.payer.pay(before.url, key), false);
    await scene.processor.behave({ declineRate: 0 });
    await expectFinal(before.url, key);
    await before.kill();

    const { url } = await scene.serve();
    await expectFinal(url, key);
    expectFirst(await scene.payer.pay(url, await scene.payer.newKey(url)));
    await scene.judge();
  });

  it('is looked up when the reply that declined it was lost, and is 402 for the repeat', async () => {
    const [{ url }, other] = await scene.serveTwo();
    await scene.processor.behave({ declineRate: 1, lostReplyRate: 1 });
    const key = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, key));
    await scene.processor.behave({ declineRate: 0, lostReplyRate: 0 });
    expectDeclined(await scene.payer.pay(other.url, key), false);
    await expectFinal(url, key);
    await scene.judge();
  });

  it('is declined by recovery when the reply was lost and nobody repeats', async () => {
    const { url } = await scene.serve();
    await scene.processor.behave({ declineRate: 1, lostReplyRate: 1 });
    const key = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, key));
    expect((await untilFinished(url, key)).state).toBe('DECLINED');
    await expectFinal(url, key);
    await scene.judge();
  });
});
