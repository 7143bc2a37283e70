import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Scope } from '#idempay/access/scopes.js';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { type Credential, credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const PRESENT = { amount: '100.50', currency: 'USD', returnUrl: 'https://shop.example/orders/17/paid' };
const PAYER: readonly Scope[] = ['payments:write', 'payments:read'];
const shop = credentialOf('shop', PAYER);
const rival = credentialOf('rival', PAYER);
const operator = credentialOf('operator', ['operations']);
/** An operator that pays too. */
const owner = credentialOf('owner', [...PAYER, 'operations']);
const reader = credentialOf('reader', ['payments:read']);

/** Rules A5 and P25. */
describe('the end of a payment under way, with credentials', async () => {
  const { environment } = await requireKeys(shop, rival, operator, owner, reader);

  describeDeployments('ending with credentials', (deployment) => {
    const shared = shareProcessedService(deployment, { ...USUAL_BEHAVIOUR, pendingRate: 1 }, environment);
    const keyOf = (answer: Answer) => String(answer.headers['idempotency-key']);
    const pay = (client: Credential, order: string) =>
      sendJson(`${shared().url}/api/payment?${order}`, 'POST', PRESENT, client.headers);
    const cancel = (client: Credential, query: string, more: Record<string, string> = {}) =>
      ask(`${shared().url}/api/payment-cancellation?${query}`, {
        method: 'POST',
        headers: { ...client.headers, ...more },
      });
    const shown = async (key: string) =>
      (await ask(`${shared().url}/api/payments/${key}`, operator)).json<Record<string, unknown>>();

    async function givenPending(client = shop, order = `reference=order-${randomUUID()}`) {
      const answer = await pay(client, order);
      expect(answer.status, answer.text).toBe(202);
      return { order, key: keyOf(answer) };
    }

    async function expectUntouched(key: string): Promise<void> {
      const payment = await shown(key);
      expect(payment).toMatchObject({ state: 'PROCESSING', executions: 1, pending: { until: expect.any(String) } });
      expect(payment).not.toHaveProperty('ending');
    }

    async function expectEnded(answer: Answer, key: string, ending: 'order' | 'attempt' = 'order'): Promise<void> {
      expect([answer.status, answer.text]).toEqual([200, '"Payment cancelled."']);
      expect(await shown(key)).toMatchObject({ state: 'DECLINED', ending, client: 'key:shop' });
      await ask(`${shared().processor.url}/pending/${key}/confirm`, { method: 'POST' });
      const charges = await shared().processor.chargesOf(key);
      expect(charges.filter(({ status }) => status === 'succeeded')).toEqual([]);
    }

    it.each([
      ['an operator', operator],
      ['an operator that pays too', owner],
    ])('is for %s, who names the client, and closes the order for that client', async (_who, asked) => {
      const { order, key } = await givenPending();
      const answer = await cancel(asked, `${order}&client=key:shop`);
      expect(answer.headers).toMatchObject({ 'idempay-client': 'key:shop', 'idempotency-key': key });
      await expectEnded(answer, key);
      expectError(await pay(shop, `${order}&attempt=2`), 410);
      // The order of this name of another client is another one.
      expect((await pay(rival, order)).status).toBe(202);
    });

    it('is for an operator of one attempt too, after which the client may pay the next one', async () => {
      const { order, key } = await givenPending();
      await expectEnded(await cancel(operator, `${order}&client=key:shop&only=attempt`), key, 'attempt');
      await givenPending(shop, `${order}&attempt=2`);
    });

    it('is for an operator by the key alone, and for the client itself', async () => {
      const [one, other] = [await givenPending(), await givenPending()];
      await expectEnded(await cancel(operator, '', { 'Idempotency-Key': one.key }), one.key);
      await expectEnded(await cancel(shop, other.order), other.key);
    });

    it('is for two operators at once: one ends it, and both are told, or one that it is under way', async () => {
      const { order, key } = await givenPending();
      const answers = await Promise.all(
        [operator, owner, operator].map((asked) => cancel(asked, `${order}&client=key:shop`)),
      );
      expect(answers.some(({ status }) => status === 200)).toBe(true);
      for (const { status } of answers) expect([200, 409]).toContain(status);
      await expectEnded(await cancel(operator, `${order}&client=key:shop`), key);
      expect(await shown(key)).toMatchObject({ executions: 2 });
    });

    it('is not for another client, nor without the scope, nor for an operator that names nobody', async () => {
      const { order, key } = await givenPending();
      expectError(await cancel(rival, '', { 'Idempotency-Key': key }), 400);
      expectError(await cancel(rival, `${order}&client=key:shop`), 400, /^'client' is for operators/);
      expectError(await cancel(rival, `${order}&client=key:shop&only=attempt`), 400, /^'client' is for operators/);
      expectError(await cancel(reader, order), 403);
      expectError(await cancel(reader, '', { 'Idempotency-Key': key }), 403);
      expectError(await cancel(operator, order), 400, /^'client' must say whose reference it is/);
      expectError(await cancel(owner, `${order}&only=attempt`), 422);
      await expectUntouched(key);
      // Of its own, which has the same name, and was never begun.
      expectError(await cancel(rival, `${order}&only=attempt`), 422);
      expect((await cancel(rival, order)).status).toBe(200);
      await expectUntouched(key);
      expect((await pay(shop, order)).status).toBe(202);
    });
  });
});
