import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectJsonString,
  expectKeyValue,
  expectReplay,
  givenPaid,
  INVALID_KEY,
  KEY_GENERATED,
  keyRecord,
  MISSING_KEY,
  NO_PAYMENT,
  repeatUntilDone,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { readPayment, resolvePayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const UUID = /^"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"$/;
const DAY_SECONDS = 86_400;
const EXPIRY_DEADLINE_MS = 10_000;

async function ttlSeconds(url: string, key: string): Promise<number> {
  return (await keyRecord(url, key)).json<{ ttlSeconds: number }>().ttlSeconds;
}

describeDeployments('payment endpoints', (deployment) => {
  const service = shareService(deployment);

  describe('GET /api/server-generated/generate-key', () => {
    it('answers a new UUID as a JSON string, stored as KEY GENERATED, to expire after the default day', async () => {
      const answer = await ask(`${service.url}/api/server-generated/generate-key`);
      expectJsonString(answer, UUID);
      await expectKeyValue(service.url, answer.json<string>(), KEY_GENERATED);
      const seconds = await ttlSeconds(service.url, answer.json<string>());
      expect(seconds).toBeLessThanOrEqual(DAY_SECONDS);
      expect(seconds).toBeGreaterThan(DAY_SECONDS - 60);
    });

    it('gives a different key to each of many callers at once', async () => {
      const keys = await Promise.all(Array.from({ length: 200 }, () => generateKey(service.url)));
      expect(new Set(keys).size).toBe(keys.length);
    });

    it('does not serve HEAD, which would make a key that nobody sees', async () => {
      const answer = await ask(`${service.url}/api/server-generated/generate-key`, { method: 'HEAD' });
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toMatch(/\bGET\b/);
      expect(answer.headers.allow).not.toMatch(/\bHEAD\b/);
    });
  });

  describe('POST /api/payment', () => {
    it('stores the transaction id as the value of the key, and answers it to every repeat', async () => {
      const { key, transactionId } = await givenPaid(service.url);
      await expectKeyValue(service.url, key, transactionId);
      for (let repeat = 0; repeat < 5; repeat += 1) expectReplay(await pay(service.url, key), transactionId);
      await expectKeyValue(service.url, key, transactionId);
    });

    it('takes the same body with different keys as different payments, whose ids only grow', async () => {
      const paid = [];
      for (let count = 0; count < 50; count += 1) paid.push(await givenPaid(service.url));
      const numbers = paid.map(({ transactionId }) => BigInt(transactionId.slice('TXN'.length)));
      expect(numbers).toEqual([...new Set(numbers)].sort((one, other) => (one < other ? -1 : 1)));
      const [first] = paid;
      expectReplay(await pay(service.url, first?.key as string), first?.transactionId);
    });

    it('refuses a request without a key, and a key that it never generated, as often as it is sent', async () => {
      const headers = { 'Content-Type': 'application/json' };
      const keyless = { method: 'POST', headers, body: GOOD_BODY };
      expectError(await ask(`${service.url}/api/payment`, keyless), 400, MISSING_KEY);
      for (let attempt = 0; attempt < 3; attempt += 1) {
        expectError(await pay(service.url, UNKNOWN_KEY), 400, INVALID_KEY);
      }
      expect((await keyRecord(service.url, UNKNOWN_KEY)).status).toBe(404);
    });
  });

  describe('GET /api/payment-status', () => {
    it('answers the transaction id of a completed payment, as often as it is asked', async () => {
      const { key, transactionId } = await givenPaid(service.url);
      for (let read = 0; read < 3; read += 1) expectCompleted(await paymentStatus(service.url, key), transactionId);
      expectReplay(await pay(service.url, key), transactionId);
    });

    it('finds no payment for a key that has not paid or was refused, and leaves the key usable', async () => {
      const key = await generateKey(service.url);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      expectError(await pay(service.url, key, { amount: '-1', currency: 'USD' }), 400, /amount/);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      await expectKeyValue(service.url, key, KEY_GENERATED);
      expectFirst(await pay(service.url, key));
    });

    it('finds no payment for a key that was never generated, and asks for a header that is missing', async () => {
      expectError(await paymentStatus(service.url, UNKNOWN_KEY), 404, NO_PAYMENT);
      expectError(await ask(`${service.url}/api/payment-status`), 400, MISSING_KEY);
    });
  });
});

/** Decision P9. */
describeDeployments('an idempotency key', (deployment) => {
  describe('with a life of one second', () => {
    const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1' });

    async function expectRefusedForEver(key: string): Promise<void> {
      for (let attempt = 0; attempt < 3; attempt += 1) {
        expectError(await pay(service.url, key), 400, INVALID_KEY);
        expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
      }
      expectError(await keyRecord(service.url, key), 404, `Key '${key}' not found.`);
    }

    it('is refused once it has expired unused, and names no payment', async () => {
      const key = await generateKey(service.url);
      expect((await shownPaymentOf(service.url, key)).state).toBe('PENDING');
      await until('the key is gone', EXPIRY_DEADLINE_MS, async () => {
        return (await keyRecord(service.url, key)).status === 404;
      });
      await expectRefusedForEver(key);
      expectError(await readPayment(service.url, key), 404, NO_PAYMENT);
      expectError(await resolvePayment(service.url, key), 404, NO_PAYMENT);
    });

    it('that paid and expired is refused, not processed a second time; its payment is still shown', async () => {
      const { key, transactionId } = await givenPaid(service.url);
      const shown = (await readPayment(service.url, key)).text;
      await until('the payment is forgotten', EXPIRY_DEADLINE_MS, async () => {
        const answer = await paymentStatus(service.url, key);
        if (answer.status === 200) expectCompleted(answer, transactionId);
        return answer.status === 404;
      });
      await expectRefusedForEver(key);
      expect((await readPayment(service.url, key)).text).toBe(shown);
    });
  });

  describe('with a life of three seconds', () => {
    const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '3' });

    it('lives its whole life again when its payment completes', async () => {
      const key = await generateKey(service.url);
      await until(
        'most of the life is over',
        EXPIRY_DEADLINE_MS,
        async () => (await ttlSeconds(service.url, key)) <= 1,
      );
      const transactionId = expectFirst(await pay(service.url, key));
      expect(await ttlSeconds(service.url, key)).toBeGreaterThan(1);
      expectReplay(await pay(service.url, key), transactionId);
      expect(await ttlSeconds(service.url, key)).toBeLessThanOrEqual(3);
    });
  });

  describe('with a payment that takes longer than the key lives', () => {
    const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1', PROCESSOR_DELAY_MS: '2000' });

    it('stays locked past its life: an invalid key would invite a second payment', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key);
      const replayed = await repeatUntilDone(service.url, key);
      expect(replayed).toBe(expectFirst(await finished));
    });
  });
});
