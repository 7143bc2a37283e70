import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, paymentStatus } from '../../testkit/client/http-client.js';
import { expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { givenTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  expectNotSent,
  REACHED_DEADLINE_MS,
  setProcessorScene,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any start that waits for nobody may take: `Stores.start` gives up before it. */
const ENDLESS = { PROCESSOR_TIMEOUT_MS: '60000', LOCK_TTL_SECONDS: '120' };

describeDeployments('a service that is killed while a charge is in flight', (deployment) => {
  const scene = setProcessorScene(deployment);

  it.each([
    ['before', { latencyMs: 1_500 }, untilAtWork],
    ['after', { replyLatencyMs: 600_000 }, untilCharged],
  ] as const)(
    '%s it was logged finishes it after its restart, once, with the id that was sent',
    async (_when, behaviour, reached) => {
      const service = await scene.serve();
      await scene.processor.behave(behaviour);
      const key = await scene.payer.newKey(service.url);
      const cut = expect(scene.payer.pay(service.url, key)).rejects.toThrow();
      await reached(scene.processor, key);
      await service.kill();
      await cut;

      const { url } = await scene.serve();
      const { state, transactionId } = await untilFinished(url, key);
      expect(state).toBe('COMPLETED');
      const [charge] = await scene.processor.chargesOf(key);
      expect(charge?.transactionId).toBe(transactionId);
      expectReplay(await scene.payer.pay(url, key), transactionId as string);
      await scene.judge();
    },
  );

  it('waits for nobody when it starts again: its port opens while the processor stands still', async () => {
    const before = await scene.serve();
    await scene.processor.kill();
    const keys: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      const key = await scene.payer.newKey(before.url);
      expectNotSent(await scene.payer.pay(before.url, key));
      keys.push(key);
    }
    await before.kill();
    await scene.processor.restart();
    scene.processor.pause();

    // `serve` would give up long before a call to the processor does.
    const { url } = await scene.serve(ENDLESS);
    const [key] = keys as [string];
    await until('recovery to be at work', REACHED_DEADLINE_MS, async () => {
      return ((await shownPayment(url, key))?.attempts ?? 0) >= 2;
    });
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    expectError(await scene.payer.pay(url, key), 409);
    expect((await ask(`${url}/api/health/redis`)).status).toBe(200);
    await generateKey(url);
    await givenTransaction(url);

    scene.processor.resume();
    for (const each of keys) {
      const { transactionId } = await untilFinished(url, each);
      expectReplay(await scene.payer.pay(url, each), transactionId as string);
    }
    await scene.judge();
  });
});
