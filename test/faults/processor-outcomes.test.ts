import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, paymentStatus } from '../../testkit/client/http-client.js';
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
  ENDLESS_MS,
  expectNotSent,
  expectPaid,
  expectUnknown,
  setProcessorEnvironment,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';

const DECLINED = { status: 402, error: 'Payment Required', message: 'Payment declined: insufficient funds' };

/** Decisions P11: the first time and, as a repeat, ever after. */
function expectDeclined(answer: Answer, replayed: boolean): void {
  expectError(answer, 402, DECLINED.message);
  expect(answer.json()).toEqual(DECLINED);
  expect(answer.headers['idempotent-replayed']).toBe(replayed ? 'true' : undefined);
  expect(answer.headers['cache-control']).toBe('no-store');
}

describeDeployments('a payment over the network', (deployment) => {
  const environment = setProcessorEnvironment(deployment);
  const { givenUnknown } = environment;

  async function expectStaysDeclined(url: string, key: string): Promise<void> {
    expectDeclined(await environment.payer.pay(url, key), true);
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    await expectKeyValue(url, key, 'DECLINED');
    expect(await shownPayment(url, key)).toMatchObject({ state: 'DECLINED', reason: 'insufficient funds' });
  }

  async function expectStaysPaid(url: string, key: string, id: string): Promise<void> {
    expectReplay(await environment.payer.pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);
    await expectKeyValue(url, key, id);
  }

  it('that is declined is 402 on every repeat, also when the processor would take it now and after a restart', async () => {
    const { payer, processor } = environment;
    const [{ url }, other] = await environment.serveTwo();
    await processor.behave({ declineRate: 1 });
    const key = await payer.newKey(url);
    expectDeclined(await payer.pay(url, key), false);
    await processor.behave({ declineRate: 0 });
    for (const each of [url, other.url]) await expectStaysDeclined(each, key);

    await environment.stop();
    const after = await environment.serve();
    await expectStaysDeclined(after.url, key);
    expectFirst(await payer.pay(after.url, await payer.newKey(after.url)));
    await environment.check();
  });

  it('whose reply was lost is a 504, and the repeat looks it up and gives the first answer', async () => {
    const { payer } = environment;
    const [{ url }, other] = await environment.serveTwo();
    const key = await givenUnknown(url, { lostReplyRate: 1 });
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    expect(await shownPayment(url, key)).toMatchObject({ state: 'PROCESSING', attempts: 1 });
    await expectStaysPaid(url, key, expectFirst(await payer.pay(other.url, key)));

    const declined = await givenUnknown(url, { lostReplyRate: 1, declineRate: 1 });
    expectDeclined(await payer.pay(other.url, declined), false);
    await expectStaysDeclined(url, declined);
    await environment.check();
  });

  it('whose reply was lost is finished by recovery when nobody repeats it, and then there are only repeats (P13)', async () => {
    const { url } = await environment.serve();
    const paid = await givenUnknown(url, { lostReplyRate: 1 });
    const declined = await givenUnknown(url, { lostReplyRate: 1, declineRate: 1 });
    const { transactionId } = await untilFinished(url, paid);
    await expectStaysPaid(url, paid, transactionId as string);
    expect((await untilFinished(url, declined)).state).toBe('DECLINED');
    await expectStaysDeclined(url, declined);
    await environment.check();
  });

  it.each([
    ['after', { replyLatencyMs: ENDLESS_MS }, untilCharged],
    ['before', { latencyMs: ENDLESS_MS }, untilAtWork],
  ] as const)(
    'whose processor is killed %s it charged is charged once when the processor is back',
    async (_when, behaviour, reached) => {
      const { payer, processor } = environment;
      const { url } = await environment.serve();
      await processor.behave(behaviour);
      const key = await payer.newKey(url);
      const first = payer.pay(url, key);
      await reached(processor, key);
      await processor.kill();
      expectUnknown(await first);
      expectUnknown(await payer.repeat(url, key));
      const unsent = await payer.newKey(url);
      expectNotSent(await payer.pay(url, unsent));

      await processor.restart({ latencyMs: 0, replyLatencyMs: 0 });
      for (const each of [key, unsent]) await environment.expectRepeatPays(url, each);
      await environment.check();
    },
  );

  it('for which the processor failed (500) is unknown until a repeat has charged it, once', async () => {
    const { payer, processor } = environment;
    const { url } = await environment.serve();
    await processor.behave({ failRate: 1 });
    const key = await payer.newKey(url);
    for (const answer of [await payer.pay(url, key), await payer.repeat(url, key)]) expectUnknown(answer);
    await processor.behave({ failRate: 0 });
    await environment.expectRepeatPays(url, key);
    await environment.check();
  });

  it.each(['replay', 'reject'])(
    'that is finished by a repeat of another amount is charged the amount of its claim (PAYLOAD_MISMATCH=%s)',
    async (mismatch) => {
      const { payer } = environment;
      const { url } = await environment.serve({ PAYLOAD_MISMATCH: mismatch });
      const charged = await givenUnknown(url, { lostReplyRate: 1 });
      const neverSent = await givenUnknown(url, { failRate: 1 });
      for (const key of [charged, neverSent]) {
        const answer = await payer.repeat(url, key, { amount: '999999.99', currency: 'EUR' });
        if (mismatch === 'reject') expectError(answer, 422);
        const id = mismatch === 'reject' ? expectReplay(await payer.repeat(url, key)) : expectPaid(answer);
        expectReplay(await payer.pay(url, key), id);
      }
      await environment.check();
    },
  );
});
