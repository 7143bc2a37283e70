import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectBodyRefused,
  expectFirst,
  expectInProgress,
  expectReplay,
  expectUnspent,
  INVALID_KEY,
  MISSING_KEY,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import {
  BAD_CONTENTS,
  GOOD_BODY,
  UNREADABLE_BODIES,
  type UnreadableBody,
} from '../../testkit/client/payment-bodies.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Spec 4.1 endpoint 2, "in this order", as decision P3 reads it: when two things are wrong, which one is said. */
describeDeployments('order of the payment rules', (deployment) => {
  const service = shareService(deployment);

  const payUnreadably = (url: string, key: string, { headers, body }: UnreadableBody): Promise<Answer> =>
    pay(url, key, body, headers ? { headers } : {});

  describe.each(UNREADABLE_BODIES.map((body) => [body.label, body] as const))('with %s', (_label, unreadable) => {
    it('says that the key is missing before anything else', async () => {
      const answer = await ask(`${service.url}/api/payment`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...unreadable.headers },
        body: unreadable.body,
      });
      expectError(answer, 400, MISSING_KEY);
      expectError(await payUnreadably(service.url, '  ', unreadable), 400, MISSING_KEY);
    });

    it('refuses the body of an unknown or impossible key before it looks at the key', async () => {
      expectBodyRefused(await payUnreadably(service.url, UNKNOWN_KEY, unreadable), unreadable.status);
      expectBodyRefused(await payUnreadably(service.url, 'no-uuid', unreadable), unreadable.status);
    });

    it('refuses the body on a completed key, whose result stays', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      expectBodyRefused(await payUnreadably(service.url, key, unreadable), unreadable.status);
      expectReplay(await pay(service.url, key), transactionId);
    });

    it('refuses the body on a fresh key, which stays unspent', async () => {
      const key = await generateKey(service.url);
      expectBodyRefused(await payUnreadably(service.url, key, unreadable), unreadable.status);
      await expectUnspent(service.url, key);
    });
  });

  describe.each(BAD_CONTENTS)('with the readable body %s', (body) => {
    it('says that the key is missing before anything else', async () => {
      expectError(await pay(service.url, '', body), 400, MISSING_KEY);
    });

    it('says that an unknown or impossible key is invalid, nothing of the body', async () => {
      expectError(await pay(service.url, UNKNOWN_KEY, body), 400, INVALID_KEY);
      expectError(await pay(service.url, 'no-uuid', body), 400, INVALID_KEY);
    });

    it('answers the stored result of a completed key', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      expectReplay(await pay(service.url, key, body), transactionId);
    });

    it('refuses the content on a fresh key, which stays unspent', async () => {
      const key = await generateKey(service.url);
      expectBodyRefused(await pay(service.url, key, body), 400);
      await expectUnspent(service.url, key);
    });
  });

  describe('while a payment is under way', () => {
    const slow = shareService(deployment, { PROCESSOR_DELAY_MS: '3000' });

    it('refuses an unreadable body before it says that the key is locked', async () => {
      const key = await generateKey(slow.url);
      const { finished } = await beginPayment(slow.url, key);
      for (const unreadable of UNREADABLE_BODIES) {
        expectBodyRefused(await payUnreadably(slow.url, key, unreadable), unreadable.status);
      }
      expectInProgress(await pay(slow.url, key, GOOD_BODY));
      expectFirst(await finished);
    });

    it('says that the key is locked before it looks at the content of a readable body', async () => {
      const key = await generateKey(slow.url);
      const { finished } = await beginPayment(slow.url, key);
      const answers = await Promise.all(BAD_CONTENTS.map((body) => pay(slow.url, key, body)));
      for (const answer of answers) expectInProgress(answer);
      const transactionId = expectFirst(await finished);
      expect(expectReplay(await pay(slow.url, key))).toBe(transactionId);
    });
  });
});
