import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectReplay,
  INVALID_KEY,
  keyRecord,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const EXPIRY_DEADLINE_MS = 10_000;

/** Decision P9. */
describeDeployments('expiry of idempotency keys', (deployment) => {
  describe('with a life of one second', () => {
    const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1' });

    const isRefusedForEver = async (key: string): Promise<void> => {
      for (let attempt = 0; attempt < 3; attempt++) {
        expectError(await pay(service.url, key), 400, INVALID_KEY);
        expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      }
      expectError(await keyRecord(service.url, key), 404, `Key '${key}' not found.`);
    };

    it('refuses a key that expired unused', async () => {
      const key = await generateKey(service.url);
      await until('the key is gone', EXPIRY_DEADLINE_MS, async () => {
        return (await keyRecord(service.url, key)).status === 404;
      });
      await isRefusedForEver(key);
    });

    it('refuses a key that paid and expired, and does not process it a second time', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      await until('the payment is forgotten', EXPIRY_DEADLINE_MS, async () => {
        const answer = await paymentStatus(service.url, key);
        if (answer.status === 200) expectCompleted(answer, transactionId);
        return answer.status === 404;
      });
      await isRefusedForEver(key);
    });
  });

  it('gives the record a whole life again when its payment completes', async () => {
    const lifeSeconds = 4;
    const stores = await deployment.open();
    try {
      const { url } = await stores.start({ IDEMPOTENCY_TTL_SECONDS: String(lifeSeconds) });
      const ttlSeconds = async (key: string): Promise<number> =>
        (await keyRecord(url, key)).json<{ ttlSeconds: number }>().ttlSeconds;

      const key = await generateKey(url);
      await until('half of the life is over', EXPIRY_DEADLINE_MS, async () => (await ttlSeconds(key)) <= 2);
      const transactionId = expectFirst(await pay(url, key));
      expect(await ttlSeconds(key)).toBeGreaterThan(2);
      expectReplay(await pay(url, key), transactionId);
      expect(await ttlSeconds(key)).toBeLessThanOrEqual(lifeSeconds);
    } finally {
      await stores.close();
    }
  });

  describe('with a payment that takes longer than a key lives', () => {
    const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1', PROCESSOR_DELAY_MS: '3000' });

    it('does not expire the payment under way', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);
      // Past the life of the key every repeat must still find it locked: an invalid key here would invite a second one.
      const replay = await until<Answer>('the payment is done', EXPIRY_DEADLINE_MS, async () => {
        const answer = await pay(service.url, key);
        if (answer.status === 200) return answer;
        expectInProgress(answer);
        return undefined;
      });
      expectReplay(replay, expectFirst(await finished));
    });
  });
});
