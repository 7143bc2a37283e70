import { it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { expectPaid, expectUnknown, setProcessorScene } from '../../testkit/deployments/processor-environment.js';

describeDeployments('a repeat of another amount that finishes a payment', (deployment) => {
  const scene = setProcessorScene(deployment);
  const OTHER = { amount: '999999.99', currency: 'EUR' };

  /** One whose charge is in the log and one whose charge never arrived, both unknown. */
  async function givenUnknown(url: string): Promise<{ charged: string; neverSent: string }> {
    const [charged, neverSent] = [await scene.payer.newKey(url), await scene.payer.newKey(url)];
    await scene.processor.behave({ lostReplyRate: 1 });
    expectUnknown(await scene.payer.pay(url, charged));
    await scene.processor.behave({ lostReplyRate: 0, failRate: 1 });
    expectUnknown(await scene.payer.pay(url, neverSent));
    await scene.processor.behave({ failRate: 0 });
    return { charged, neverSent };
  }

  it('charges the amount of the claim, and is told its result (PAYLOAD_MISMATCH=replay)', async () => {
    const { url } = await scene.serve();
    const { charged, neverSent } = await givenUnknown(url);
    for (const key of [charged, neverSent]) {
      const id = expectPaid(await scene.payer.repeat(url, key, OTHER));
      expectReplay(await scene.payer.pay(url, key), id);
    }
    await scene.judge();
  });

  it('charges the amount of the claim, and is told of the mismatch (PAYLOAD_MISMATCH=reject)', async () => {
    const { url } = await scene.serve({ PAYLOAD_MISMATCH: 'reject' });
    const { charged, neverSent } = await givenUnknown(url);
    for (const key of [charged, neverSent]) {
      expectError(await scene.payer.pay(url, key, OTHER), 422);
      expectReplay(await scene.payer.repeat(url, key));
      expectError(await scene.payer.pay(url, key, OTHER), 422);
    }
    await scene.judge();
  });
});
