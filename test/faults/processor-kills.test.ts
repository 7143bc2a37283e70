import { expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, paymentStatus } from '../../testkit/client/http-client.js';
import { expectReplay, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import { shownPayment, untilFinished } from '../../testkit/client/processor-payer.js';
import { givenTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import {
  ENDLESS_MS,
  expectNotSent,
  REACHED_DEADLINE_MS,
  setProcessorProcesses,
  untilAtWork,
  untilCharged,
} from '../../testkit/deployments/processor-environment.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any start that waits for nobody may take: `Stores.start` gives up before it. */
const ENDLESS = { PROCESSOR_TIMEOUT_MS: '60000', LOCK_TTL_SECONDS: '120' };

describeDeployments('a service that is killed', (deployment) => {
  const environment = setProcessorProcesses(deployment);

  test.each([
    ['before', { latencyMs: 1_500 }, untilAtWork],
    ['after', { replyLatencyMs: ENDLESS_MS }, untilCharged],
  ] as const)(
    '%s its charge was logged finishes it after its restart, once, with the id that was sent',
    async (_when, behaviour, reached) => {
      const { payer, processor } = environment;
      const service = await environment.serve();
      await processor.behave(behaviour);
      const key = await payer.newKey(service.url);
      const cut = expect(payer.pay(service.url, key)).rejects.toThrow();
      await reached(processor, key);
      await service.kill();
      await cut;

      const { url } = await environment.serve();
      const { state, transactionId } = await untilFinished(url, key);
      expect(state).toBe('COMPLETED');
      expect(await processor.chargesOf(key)).toMatchObject([{ transactionId }]);
      expectReplay(await payer.pay(url, key), transactionId as string);
      await environment.check();
    },
  );

  test('waits for nobody when it starts again: its port opens while the processor does not answer', async () => {
    const { payer, processor } = environment;
    const before = await environment.serve();
    await processor.kill();
    const key = await payer.newKey(before.url);
    expectNotSent(await payer.pay(before.url, key));
    await before.kill();
    await processor.restart();
    processor.pause();

    const { url } = await environment.serve(ENDLESS);
    await until('recovery to be at work', REACHED_DEADLINE_MS, async () => {
      return ((await shownPayment(url, key))?.attempts ?? 0) >= 2;
    });
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    expectError(await payer.pay(url, key), 409);
    expect((await ask(`${url}/api/health/redis`)).status).toBe(200);
    await generateKey(url);
    await givenTransaction(url);

    processor.resume();
    const { transactionId } = await untilFinished(url, key);
    expectReplay(await payer.pay(url, key), transactionId as string);
    await environment.check();
  });
});
