import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  KEY_GENERATED,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

describeDeployments('a payment under way', (deployment) => {
  describe('with a processor that takes three seconds', () => {
    const service = shareService(deployment, { PROCESSOR_DELAY_MS: '3000' });

    it('refuses repeats with 409 until it is done, then replays its result', async () => {
      const key = await generateKey(service.url);
      const { conflict, finished } = await beginPayment(service.url, key);
      expectInProgress(conflict);
      for (let repeat = 0; repeat < 3; repeat++) expectInProgress(await pay(service.url, key));
      expectInProgress(await pay(service.url, key, { amount: '7', currency: 'EUR' }));
      const transactionId = expectFirst(await finished);
      expectReplay(await pay(service.url, key), transactionId);
    });

    it('is not found by payment-status and still reads KEY GENERATED, until it is completed', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      await expectKeyValue(service.url, key, KEY_GENERATED);

      const transactionId = expectFirst(await finished);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
      await expectKeyValue(service.url, key, transactionId);
    });

    it('locks its own key only', async () => {
      const [one, other] = [await generateKey(service.url), await generateKey(service.url)];
      const { finished } = await beginPayment(service.url, one);
      const transactionId = expectFirst(await pay(service.url, other));
      expect(expectFirst(await finished)).not.toBe(transactionId);
    });

    it('recognises the locked key in each form that the header allows', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);
      for (const form of [key.toUpperCase(), `"${key}"`, ` ${key} `]) {
        expectInProgress(await pay(service.url, form));
      }
      expectFirst(await finished);
    });

    it('tells a repeat to come back in one to three seconds, as earlier payments took', async () => {
      expectFirst(await pay(service.url, await generateKey(service.url)));
      const key = await generateKey(service.url);
      const { conflict, finished } = await beginPayment(service.url, key);
      expectInProgress(conflict, 3);
      expectInProgress(await pay(service.url, key), 3);
      expectFirst(await finished);
    });
  });

  describe('that takes longer than its lease', () => {
    const LOCK_TTL_SECONDS = 2;
    const service = shareService(deployment, {
      LOCK_TTL_SECONDS: String(LOCK_TTL_SECONDS),
      PROCESSOR_DELAY_MS: '5000',
    });

    it('stays locked to the end, never promises more than the lease, and is paid once', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);

      const replay = await until<Answer>('the payment is done', 20_000, async () => {
        const answer = await pay(service.url, key);
        if (answer.status === 200) return answer;
        expectInProgress(answer, LOCK_TTL_SECONDS);
        return undefined;
      });
      expectReplay(replay, expectFirst(await finished));
    });
  });
});
