import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectCompleted,
  expectFirst,
  expectJsonString,
  expectKeyValue,
  expectReplay,
  INVALID_KEY,
  KEY_GENERATED,
  keyRecord,
  MISSING_KEY,
  NO_PAYMENT,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const DEFAULT_KEY_TTL_SECONDS = 86_400;

describeDeployments('payment endpoints', (deployment) => {
  const service = shareService(deployment);

  describe('GET /api/server-generated/generate-key', () => {
    it('answers a new UUID as a JSON string', async () => {
      const answer = await ask(`${service.url}/api/server-generated/generate-key`);
      expectJsonString(answer, new RegExp(`^"${UUID}"$`));
    });

    it('stores the key as KEY GENERATED, to expire after the default day', async () => {
      const key = await generateKey(service.url);
      await expectKeyValue(service.url, key, KEY_GENERATED);
      const { ttlSeconds } = (await keyRecord(service.url, key)).json<{ ttlSeconds: number }>();
      expect(ttlSeconds).toBeLessThanOrEqual(DEFAULT_KEY_TTL_SECONDS);
      expect(ttlSeconds).toBeGreaterThan(DEFAULT_KEY_TTL_SECONDS - 60);
    });

    it('gives a different key to each of many callers at once', async () => {
      const keys = await Promise.all(Array.from({ length: 200 }, () => generateKey(service.url)));
      expect(new Set(keys).size).toBe(keys.length);
    });

    it('does not serve HEAD, which would make a key that nobody is told', async () => {
      const answer = await ask(`${service.url}/api/server-generated/generate-key`, { method: 'HEAD' });
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toMatch(/\bGET\b/);
      expect(answer.headers.allow).not.toMatch(/\bHEAD\b/);
    });
  });

  describe('POST /api/payment', () => {
    it('processes the first payment of a key and stores its transaction id as the value of the key', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      await expectKeyValue(service.url, key, transactionId);
    });

    it('answers every repeat with the stored result, and says that it is one', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      for (let repeat = 0; repeat < 5; repeat++) expectReplay(await pay(service.url, key), transactionId);
      await expectKeyValue(service.url, key, transactionId);
    });

    it('takes the same body with different keys as different payments', async () => {
      const [one, other] = [await generateKey(service.url), await generateKey(service.url)];
      const transactionId = expectFirst(await pay(service.url, one));
      expect(expectFirst(await pay(service.url, other))).not.toBe(transactionId);
      expectReplay(await pay(service.url, one), transactionId);
    });

    it('gives transaction ids whose numbers only grow', async () => {
      const numbers: bigint[] = [];
      for (let count = 0; count < 50; count++) {
        const transactionId = expectFirst(await pay(service.url, await generateKey(service.url)));
        numbers.push(BigInt(transactionId.slice('TXN'.length)));
      }
      const rising = [...numbers].sort((one, other) => (one < other ? -1 : 1));
      expect(numbers).toEqual(rising);
      expect(new Set(numbers).size).toBe(numbers.length);
    });

    it('refuses a request without a key', async () => {
      const answer = await ask(`${service.url}/api/payment`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: '{"amount":"100.50","currency":"USD"}',
      });
      expectError(answer, 400, MISSING_KEY);
    });

    it('refuses a key that it never generated, as often as it is sent', async () => {
      for (let attempt = 0; attempt < 3; attempt++) {
        expectError(await pay(service.url, UNKNOWN_KEY), 400, INVALID_KEY);
      }
      expect((await keyRecord(service.url, UNKNOWN_KEY)).status).toBe(404);
    });
  });

  describe('GET /api/payment-status', () => {
    it('answers the transaction id of a completed payment, as often as it is asked', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      for (let read = 0; read < 3; read++) expectCompleted(await paymentStatus(service.url, key), transactionId);
      expectReplay(await pay(service.url, key), transactionId);
    });

    it('finds no payment for a key that has not paid, and leaves the key usable', async () => {
      const key = await generateKey(service.url);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      await expectKeyValue(service.url, key, KEY_GENERATED);
      expectFirst(await pay(service.url, key));
    });

    it('finds no payment for a key that was never generated', async () => {
      expectError(await paymentStatus(service.url, UNKNOWN_KEY), 404, NO_PAYMENT);
    });

    it('finds no payment for a key that has been refused', async () => {
      const key = await generateKey(service.url);
      expectError(await pay(service.url, key, { amount: '-1', currency: 'USD' }), 400, /amount/);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
    });

    it('asks for the header when it is missing', async () => {
      expectError(await ask(`${service.url}/api/payment-status`), 400, MISSING_KEY);
    });
  });
});
