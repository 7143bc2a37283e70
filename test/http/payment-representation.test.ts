import { describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { beginPayment, expectFirst, payPreferring } from '../../testkit/client/payment-answers.js';
import { readPayment, shownPayment } from '../../testkit/client/payment-records.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareHeldService } from '../../testkit/deployments/held-service.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const RECORD = 'return=representation';
const PREFERS = { Prefer: RECORD };
const MONEY = { amount: '100.50', currency: 'USD' };

/** The 200 of rule P20: the same text as the record that `GET /api/payments/{key}` gives to the same caller. */
async function expectRecord(
  url: string,
  answer: Answer,
  { applied = RECORD, headers = {} }: { applied?: string; headers?: Record<string, string> } = {},
) {
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'preference-applied': applied,
  });
  const payment = shownPayment(answer.text);
  expect(answer.text).toBe((await readPayment(url, payment.idempotencyKey, { headers })).text);
  expect(payment.state).toBe('COMPLETED');
  return payment;
}

describeOneDeployment('Prefer: return=representation', (deployment) => {
  const shared = shareService(deployment);
  const slow = shareHeldService(deployment);

  test('gives the record of a first payment, of a repeat, and of the status', async () => {
    const { url } = shared;
    const key = await generateKey(url);
    const first = await payPreferring(url, key, RECORD);
    const payment = await expectRecord(url, first);
    expect(payment).toMatchObject({ idempotencyKey: key, amount: '100.50', currency: 'USD' });
    expect(first.headers).not.toHaveProperty('idempotent-replayed');
    const repeat = await payPreferring(url, key, ['respond-async', RECORD]);
    await expectRecord(url, repeat);
    expect([repeat.text, repeat.headers['idempotent-replayed']]).toEqual([first.text, 'true']);
    const status = await ask(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key, ...PREFERS } });
    await expectRecord(url, status);
    expect(status.headers).not.toHaveProperty('idempotent-replayed');
    // HEAD has the headers of GET.
    const head = await ask(`${url}/api/payment-status`, {
      method: 'HEAD',
      headers: { 'Idempotency-Key': key, ...PREFERS },
    });
    expect([head.headers['content-length'], head.headers['preference-applied']]).toEqual([
      String(Buffer.byteLength(status.text)),
      RECORD,
    ]);
  });

  test('gives the record of an order, also to a question about its newest attempt', async () => {
    const { url } = shared;
    const target = `${url}/api/payment?reference=order-1`;
    for (const replayed of [undefined, 'true']) {
      const answer = await sendJson(target, 'POST', MONEY, PREFERS);
      const payment = await expectRecord(url, answer);
      expect(payment).toMatchObject({ reference: 'order-1', attempt: 1 });
      expect(answer.headers).toMatchObject({ 'idempotency-key': payment.idempotencyKey });
      expect(answer.headers['idempotent-replayed']).toBe(replayed);
    }
    for (const query of ['reference=order-1', 'reference=order-1&attempt=1']) {
      const status = await ask(`${url}/api/payment-status?${query}`, { headers: PREFERS });
      expect(await expectRecord(url, status)).toMatchObject({ reference: 'order-1' });
    }
  });

  test('gives the record to a duplicate that waited, and names both preferences in one header', async () => {
    const { url } = slow;
    const key = await generateKey(url);
    const { finished } = await beginPayment(url, key);
    const waiting = payPreferring(url, key, `${RECORD}, wait=20`);
    await expect.poll(async () => sumOf(await scrape(url), 'idempay_payment_waiters')).toBe(1);
    slow.release(key);
    await expectRecord(url, await waiting, { applied: `wait=20, ${RECORD}` });
    expectFirst(await finished);
  });

  test('changes no error', async () => {
    const { url } = shared;
    const key = await generateKey(url);
    const refused = await pay(url, key, { amount: '0', currency: 'USD' }, { headers: PREFERS });
    const plain = await pay(url, key, { amount: '0', currency: 'USD' });
    expectError(refused, 400);
    expect([refused.text, refused.headers['preference-applied']]).toEqual([plain.text, undefined]);
    expectError(await ask(`${url}/api/payment-status`, { headers: { 'Idempotency-Key': key, ...PREFERS } }), 404);
  });

  test('is not applied where another preference for the answer comes first', async () => {
    const { url } = shared;
    const answer = await payPreferring(url, await generateKey(url), 'return=minimal, return=representation');
    expectFirst(answer);
    expect(answer.headers).not.toHaveProperty('preference-applied');
  });

  describe('with AUTH=required', async () => {
    const payer = credentialOf('shop', ['payments:write']);
    const reader = credentialOf('shop', ['payments:read']);
    const operator = credentialOf('operator', ['operations', 'payments:read']);
    const keys = await requireKeys(payer, reader, operator);
    const processed = shareProcessedService(deployment, {}, keys.environment);

    test('gives each caller what the record shows to that caller', async () => {
      const { url } = processed();
      const paid = await sendJson(`${url}/api/payment?reference=order-2`, 'POST', MONEY, {
        ...payer.headers,
        ...PREFERS,
      });
      expect(await expectRecord(url, paid, { headers: reader.headers })).toMatchObject({ processor: 'http' });
      const key = String(paid.headers['idempotency-key']);
      const asked = await ask(`${url}/api/payment-status?reference=order-2&client=key:shop`, {
        headers: { ...operator.headers, ...PREFERS },
      });
      const shown = await expectRecord(url, asked, { headers: operator.headers });
      expect([shown.idempotencyKey, shown.processor]).toEqual([key, expect.stringContaining('http')]);
      expect(shown.processor).not.toBe('http');
    });
  });
});
