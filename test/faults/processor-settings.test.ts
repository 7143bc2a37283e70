import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { paymentStatus } from '../../testkit/client/http-client.js';
import { expectFirst, expectInProgress, expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectNotSent,
  expectPaid,
  expectUnknown,
  LEASE_MS,
  REACHED_DEADLINE_MS,
  setProcessorScene,
} from '../../testkit/deployments/processor-environment.js';
import type { LogLine } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const ALARM_LEVEL = 50;
const PAYMENTS = 4;
/** Recovery takes over nothing that was given up less than this long ago. */
const FIRST_BACK_OFF_MS = 1_000;
/** Without a processor's URL nothing moves; a simulated payment takes no time. */
const SIMULATED = { PROCESSOR_URL: '' };

describeDeployments('a processor that refuses our requests', (deployment) => {
  const scene = setProcessorScene(deployment);
  /** The alarm is throttled for ten seconds, so each status is told by a process of its own: one with another setting. */
  const alarmsIn = (logs: readonly LogLine[]) =>
    logs.filter(({ level, msg }) => level >= ALARM_LEVEL && msg?.includes('look at'));

  it.each([401, 403, 404, 422, 400])('with %i is one alarm at once, and pays when it is mended', async (refuseWith) => {
    const { url, logs } = await scene.serve({ PROCESSOR_DEDUP_SECONDS: `${70_000 + refuseWith}` });
    await scene.processor.behave({ refuseWith });
    const keys: string[] = [];
    for (let index = 0; index < PAYMENTS; index += 1) {
      const key = await scene.payer.newKey(url);
      expectUnknown(await scene.payer.pay(url, key));
      keys.push(key);
      await until('the alarm', REACHED_DEADLINE_MS, () => alarmsIn(logs).length > 0);
    }
    expectUnknown(await scene.payer.repeat(url, keys[0] as string));
    expect(alarmsIn(logs)).toHaveLength(1);
    expect(alarmsIn(logs)[0]).toMatchObject({
      level: ALARM_LEVEL,
      msg: expect.stringContaining(`answered ${refuseWith}`),
    });

    await scene.processor.behave({ refuseWith: null });
    for (const key of keys) {
      const id = expectPaid(await scene.payer.repeat(url, key));
      expectReplay(await scene.payer.pay(url, key), id);
    }
    await scene.judge();
  });
});

describeDeployments('a service that is started for another processor', (deployment) => {
  const scene = setProcessorScene(deployment);

  it('leaves the claims of the one before alone, and finishes them when it has that one again', async () => {
    const before = await scene.serve();
    await scene.processor.behave({ lostReplyRate: 1 });
    const charged = await scene.payer.newKey(before.url);
    expectUnknown(await scene.payer.pay(before.url, charged));
    await scene.processor.kill();
    const neverSent = await scene.payer.newKey(before.url);
    expectNotSent(await scene.payer.pay(before.url, neverSent));

    await untilPast(FIRST_BACK_OFF_MS);

    const { url } = await scene.serve(SIMULATED);
    const rows = await Promise.all([charged, neverSent].map((key) => shownPayment(url, key)));
    for (const key of [charged, neverSent]) {
      expectInProgress(await scene.payer.pay(url, key), LEASE_MS / 1000);
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    }
    const simulated = await scene.payer.newKey(url);
    const simulatedId = expectFirst(await scene.payer.pay(url, simulated));
    expect(await shownPayment(url, simulated)).toMatchObject({ processor: 'simulated', state: 'COMPLETED' });
    // Recovery has had its round at the start, and nobody has touched them.
    for (const row of rows)
      expect(row).toMatchObject({ state: 'PROCESSING', processor: `${scene.processor.url}?no-user`, attempts: 1 });
    expect(await Promise.all([charged, neverSent].map((key) => shownPayment(url, key)))).toEqual(rows);

    await scene.processor.restart({ lostReplyRate: 0 });
    const after = await scene.serve();
    expectPaid(await scene.payer.repeat(after.url, charged));
    const { transactionId } = await untilFinished(after.url, neverSent);
    expectReplay(await scene.payer.pay(after.url, neverSent), transactionId as string);
    expectReplay(await scene.payer.pay(after.url, simulated), simulatedId);
    await scene.judge();
  });

  it('never charges for a payment that was begun as a simulated one', async () => {
    const before = await scene.serve({ ...SIMULATED, PROCESSOR_DELAY_MS: '600000', LOCK_TTL_SECONDS: '1' });
    const key = await scene.payer.newKey(before.url);
    const cut = expect(scene.payer.pay(before.url, key)).rejects.toThrow();
    await until(
      'the claim',
      REACHED_DEADLINE_MS,
      async () => (await shownPayment(before.url, key))?.state === 'PROCESSING',
    );
    await before.kill();
    await cut;

    const { url } = await scene.serve();
    expectInProgress(await scene.payer.pay(url, key), LEASE_MS / 1000);
    // Recovery finishes this one, a back-off later at the earliest, so it has met the other one too.
    await scene.processor.behave({ lostReplyRate: 1 });
    const probe = await scene.payer.newKey(url);
    expectUnknown(await scene.payer.pay(url, probe));
    await untilFinished(url, probe);
    expectInProgress(await scene.payer.pay(url, key), LEASE_MS / 1000);
    expect(await shownPayment(url, key)).toMatchObject({ state: 'PROCESSING', processor: 'simulated', attempts: 1 });

    const after = await scene.serve(SIMULATED);
    await untilFinished(after.url, key);
    expectReplay(await scene.payer.pay(after.url, key));
    await scene.judge();
  });
});
