import { describe, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectBodyRefused,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectReplay,
  expectUnspent,
  INVALID_KEY,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import { BAD_CONTENTS } from '../../testkit/client/payment-bodies.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const PAID = '{"amount":"100.50","currency":"USD"}';

/** The payment above, written otherwise: canonical amount and currency are the same (decision P6). */
const SAME_PAYMENT = [
  '{"amount":"100.5","currency":"USD"}',
  '{"amount":100.50,"currency":"USD"}',
  '{"amount":100.5,"currency":"usd"}',
  '{"amount":"100.50","currency":"Usd"}',
  '{ "currency":"USD", "amount":"100.50" }',
  '{"amount":"100.50","currency":"USD","note":"second attempt"}',
];

const OTHER_PAYMENTS = [
  '{"amount":"100.51","currency":"USD"}',
  '{"amount":"100.05","currency":"USD"}',
  '{"amount":"100","currency":"USD"}',
  '{"amount":10050,"currency":"USD"}',
  '{"amount":"100.50","currency":"EUR"}',
  '{"amount":"100.5","currency":"kwd"}',
];

describeDeployments('the same key with a different body', (deployment) => {
  describe('by default', () => {
    const service = shareService(deployment);

    it.each(OTHER_PAYMENTS)('gets the stored result: %s', async (body) => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key, PAID));
      expectReplay(await pay(service.url, key, body), transactionId);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
    });
  });

  describe('with PAYLOAD_MISMATCH=replay', () => {
    const service = shareService(deployment, { PAYLOAD_MISMATCH: 'replay' });

    it('gets the stored result', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key, PAID));
      for (const body of OTHER_PAYMENTS) expectReplay(await pay(service.url, key, body), transactionId);
    });
  });

  describe('with PAYLOAD_MISMATCH=reject', () => {
    const service = shareService(deployment, { PAYLOAD_MISMATCH: 'reject' });

    it.each(SAME_PAYMENT)('gets the stored result where it says the same: %s', async (body) => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key, PAID));
      expectReplay(await pay(service.url, key, body), transactionId);
    });

    it.each([...OTHER_PAYMENTS, ...BAD_CONTENTS])('is refused with 422, and the result stays: %s', async (body) => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key, PAID));
      expectError(await pay(service.url, key, body), 422);
      expectReplay(await pay(service.url, key, PAID), transactionId);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
    });

    it('compares with the payment that was made, not with a body that was refused before it', async () => {
      const key = await generateKey(service.url);
      expectBodyRefused(await pay(service.url, key, '{"amount":"0","currency":"USD"}'), 400);
      await expectUnspent(service.url, key);
      expectReplay(await pay(service.url, key, PAID));
    });

    it('still says of an unknown key that it is invalid', async () => {
      for (const body of [PAID, ...BAD_CONTENTS])
        expectError(await pay(service.url, UNKNOWN_KEY, body), 400, INVALID_KEY);
    });

    it('still refuses an unreadable body as such', async () => {
      const key = await generateKey(service.url);
      expectFirst(await pay(service.url, key, PAID));
      expectBodyRefused(await pay(service.url, key, '{"amount":'), 400);
    });
  });

  describe('with PAYLOAD_MISMATCH=reject, while the payment is under way', () => {
    const service = shareService(deployment, { PAYLOAD_MISMATCH: 'reject', PROCESSOR_DELAY_MS: '3000' });

    it('is refused with 422 where it says something else, with 409 where it says the same', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key, PAID);
      for (const body of OTHER_PAYMENTS) expectError(await pay(service.url, key, body), 422);
      for (const body of SAME_PAYMENT) expectInProgress(await pay(service.url, key, body));
      const transactionId = expectFirst(await finished);
      expectReplay(await pay(service.url, key, PAID), transactionId);
    });
  });
});
