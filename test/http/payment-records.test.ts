import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectFirst,
  expectReplay,
  INVALID_KEY,
  keyRecord,
  NO_PAYMENT,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import { readPayment, resolvePayment, shownIn, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const EXPIRY_DEADLINE_MS = 10_000;
const CLAIM_DEADLINE_MS = 5_000;
/** A recovery round and its pauses. */
const SETTLED_DEADLINE_MS = 15_000;

describeDeployments('GET /api/payments/{key}', (deployment) => {
  const shared = shareService(deployment);

  it('shows a key that was issued as PENDING, in exactly this text', async () => {
    const before = Date.now();
    const key = await generateKey(shared.url);
    const answer = await readPayment(shared.url, key);
    const { createdAt } = shownIn(answer);
    expect(answer.text).toBe(
      `{"idempotencyKey":"${key}","state":"PENDING","amount":null,"currency":null,"transactionId":null,` +
        `"processor":null,"attempts":0,"reason":null,"resolution":null,` +
        `"createdAt":"${createdAt}","claimedAt":null,"settledAt":null}`,
    );
    expect(Date.parse(createdAt)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(createdAt)).toBeLessThanOrEqual(Date.now());
  });

  it('shows a payment as COMPLETED, in exactly this text', async () => {
    const before = Date.now();
    const key = await generateKey(shared.url);
    const transactionId = expectFirst(await pay(shared.url, key, { amount: 7.5, currency: 'eur' }));
    const answer = await readPayment(shared.url, key);
    const { createdAt, claimedAt, settledAt } = shownIn(answer);
    expect(answer.text).toBe(
      `{"idempotencyKey":"${key}","state":"COMPLETED","amount":"7.50","currency":"EUR",` +
        `"transactionId":"${transactionId}","processor":"simulated","attempts":1,"reason":null,"resolution":null,` +
        `"createdAt":"${createdAt}","claimedAt":"${claimedAt}","settledAt":"${settledAt}"}`,
    );
    expect(Date.parse(createdAt)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(settledAt as string)).toBeLessThanOrEqual(Date.now());
  });

  it.each([
    ['1000', 'JPY', '1000'],
    ['0.001', 'KWD', '0.001'],
    ['5', 'USD', '5.00'],
    ['1234567890123.45', 'USD', '1234567890123.45'],
  ])('shows %s %s as exactly %s', async (amount, currency, shown) => {
    const key = await generateKey(shared.url);
    expectFirst(await pay(shared.url, key, { amount, currency }));
    expect(await shownPaymentOf(shared.url, key)).toMatchObject({ amount: shown, currency });
  });

  it('shows the same after repeats, by this payload or another', async () => {
    const key = await generateKey(shared.url);
    const transactionId = expectFirst(await pay(shared.url, key));
    const before = (await readPayment(shared.url, key)).text;
    expectReplay(await pay(shared.url, key), transactionId);
    expectReplay(await pay(shared.url, key, { amount: '7', currency: 'EUR' }), transactionId);
    expect((await readPayment(shared.url, key)).text).toBe(before);
  });

  it('still shows a key as PENDING whose payment was refused', async () => {
    const key = await generateKey(shared.url);
    expectError(await pay(shared.url, key, { amount: '-1', currency: 'USD' }), 400, /amount/);
    expect(await shownPaymentOf(shared.url, key)).toMatchObject({ state: 'PENDING', idempotencyKey: key });
  });

  it('finds the key in capitals and in quotes, and shows it as it was given out', async () => {
    const key = await generateKey(shared.url);
    expectFirst(await pay(shared.url, key));
    for (const form of [key.toUpperCase(), `%22${key}%22`, `%20${key}%20`]) {
      expect(await shownPaymentOf(shared.url, form)).toMatchObject({ state: 'COMPLETED', idempotencyKey: key });
    }
  });

  it.each([
    ['was never generated', UNKNOWN_KEY],
    ['is none', 'abc'],
    ['is too long', `${UNKNOWN_KEY}0`],
    ['has no hyphens', UNKNOWN_KEY.replaceAll('-', '')],
    ['is far too long', 'x'.repeat(8_000)],
    ['is white space', '%20%20'],
    ['is not printable', '%00%01'],
    ['is no ASCII', 'caf%C3%A9'],
    ['would be SQL', '%27%20OR%201=1'],
  ])('answers 404 for a key that %s', async (_what, key) => {
    expectError(await readPayment(shared.url, key), 404, NO_PAYMENT);
    const head = await readPayment(shared.url, key, { method: 'HEAD' });
    expect(head.status).toBe(404);
    expect(head.text).toBe('');
  });

  it('answers 400 for a key that is badly percent-encoded', async () => {
    expectError(await readPayment(shared.url, '%zz'), 400);
  });

  it('answers HEAD as GET, without the body', async () => {
    const key = await generateKey(shared.url);
    expectFirst(await pay(shared.url, key));
    const { headers, text } = await readPayment(shared.url, key);
    const head = await readPayment(shared.url, key, { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    for (const name of ['content-type', 'cache-control', 'etag', 'content-length']) {
      expect(head.headers[name], name).toBe(headers[name]);
    }
    expect(head.headers['content-length']).toBe(`${text.length}`);
  });

  it('does not look at Prefer', async () => {
    const key = await generateKey(shared.url);
    const answer = await readPayment(shared.url, key, { headers: { Prefer: 'wait=10' } });
    expect(shownIn(answer).state).toBe('PENDING');
    expect(answer.headers).not.toHaveProperty('preference-applied');
  });

  it.each([
    ['/api/payments', 'GET, HEAD', ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']],
    ['/api/payments/export', 'GET, HEAD', ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']],
    [`/api/payments/${UNKNOWN_KEY}`, 'GET, HEAD', ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']],
    [`/api/payments/${UNKNOWN_KEY}/resolution`, 'POST', ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']],
  ])('answers 405 on %s to a method other than %s', async (path, allow, methods) => {
    for (const method of methods) {
      const answer = await ask(`${shared.url}${path}`, { method });
      expect(answer.headers.allow).toBe(allow);
      if (method === 'HEAD') expect(answer.status).toBe(405);
      else expectError(answer, 405);
    }
  });

  it.each([
    '/api/payments/',
    `/api/payments/${UNKNOWN_KEY}/`,
    `/api/payments/${UNKNOWN_KEY}/resolutions`,
    `/api/payments/${UNKNOWN_KEY}/resolution/1`,
    '/api/Payments',
  ])('answers 404 on %s', async (path) => {
    expectError(await ask(`${shared.url}${path}`), 404);
  });

  it('shows the same after a restart', async () => {
    const stores = await deployment.open();
    try {
      const first = await stores.start();
      const [paid, unpaid] = [await generateKey(first.url), await generateKey(first.url)];
      expectFirst(await pay(first.url, paid));
      const before = await Promise.all([paid, unpaid].map((key) => readPayment(first.url, key)));
      await first.stop();

      const second = await stores.start();
      const after = await Promise.all([paid, unpaid].map((key) => readPayment(second.url, key)));
      expect(after.map(({ text }) => text)).toEqual(before.map(({ text }) => text));
      expect(after.map(({ headers }) => headers.etag)).toEqual(before.map(({ headers }) => headers.etag));
    } finally {
      await stores.close();
    }
  });

  describe('of a payment under way', () => {
    const slow = shareService(deployment, { PROCESSOR_DELAY_MS: '1000' });

    it('shows PROCESSING, with the id that it will have, until it is COMPLETED; each with a tag of its own', async () => {
      const key = await generateKey(slow.url);
      const pending = await readPayment(slow.url, key);
      const { finished } = await beginPayment(slow.url, key, { amount: '9.90', currency: 'USD' });
      const processing = await until('the payment is claimed', CLAIM_DEADLINE_MS, async () => {
        const answer = await readPayment(slow.url, key);
        return shownIn(answer).state !== 'PENDING' && answer;
      });
      const shown = shownIn(processing);
      expect(shown).toMatchObject({ state: 'PROCESSING', amount: '9.90', currency: 'USD', attempts: 1 });
      expectError(await paymentStatus(slow.url, key), 404, NO_PAYMENT);

      const transactionId = expectFirst(await finished);
      const completed = await readPayment(slow.url, key);
      const { settledAt, ...rest } = shownIn(completed);
      expect({ ...rest, settledAt: null }).toEqual({ ...shown, state: 'COMPLETED' });
      expect(rest.transactionId).toBe(transactionId);
      expect(Date.parse(settledAt as string) - Date.parse(rest.claimedAt as string)).toBeGreaterThanOrEqual(990);
      expect(new Set([pending, processing, completed].map(({ headers }) => headers.etag)).size).toBe(3);
    });
  });

  describe('with a processor over the network', () => {
    const shared = shareProcessedService(deployment);

    it('shows a decline with its reason, which is final', async () => {
      const { url, processor } = shared();
      await processor.behave({ declineRate: 1 });
      const key = await generateKey(url);
      expectError(await pay(url, key), 402, 'Payment declined: insufficient funds');
      const payment = await shownPaymentOf(url, key);
      expect(payment).toMatchObject({ state: 'DECLINED', reason: 'insufficient funds', resolution: null, attempts: 1 });
      expect(payment.processor).toBe(`${processor.url}?no-user`);
      const [charge] = await processor.chargesOf(key);
      expect(payment.transactionId).toBe(charge?.transactionId);
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
      await processor.behave({ declineRate: 0 });
    });

    it('counts the attempts of a payment that was taken over, and keeps its id and the time of its claim', async () => {
      const { url, processor } = shared();
      await processor.behave({ refuseWith: 503 });
      const key = await generateKey(url);
      expectError(await pay(url, key), 504);
      // Recovery makes attempts of its own meanwhile.
      const unclear = await shownPaymentOf(url, key);
      expect(unclear.state).toBe('PROCESSING');
      await processor.behave({ refuseWith: null });

      const done = await until('the payment is done', SETTLED_DEADLINE_MS, async () => {
        const answer = await pay(url, key);
        return answer.status === 200 && answer;
      });
      const { settledAt, attempts, ...rest } = await shownPaymentOf(url, key);
      expect({ ...rest, settledAt: null, attempts: unclear.attempts }).toEqual({ ...unclear, state: 'COMPLETED' });
      expect(transactionIdOf(done)).toBe(rest.transactionId);
      expect(attempts).toBeGreaterThan(unclear.attempts);
      expect(await processor.chargesOf(key)).toHaveLength(1);
    });
  });

  describe('with keys that live for a second', () => {
    const brief = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1' });

    const expired = (key: string) =>
      until('the key is gone', EXPIRY_DEADLINE_MS, async () => (await keyRecord(brief.url, key)).status === 404);

    it('finds nothing for a key that expired unpaid', async () => {
      const key = await generateKey(brief.url);
      expect((await shownPaymentOf(brief.url, key)).state).toBe('PENDING');
      await expired(key);
      expectError(await readPayment(brief.url, key), 404, NO_PAYMENT);
      expectError(await resolvePayment(brief.url, key), 404, NO_PAYMENT);
    });

    it('still shows a payment whose key has expired, though the key is refused and payment-status finds nothing', async () => {
      const key = await generateKey(brief.url);
      const transactionId = expectFirst(await pay(brief.url, key));
      const before = (await readPayment(brief.url, key)).text;
      const status = await paymentStatus(brief.url, key);
      if (status.status === 200) expectCompleted(status, transactionId);
      await expired(key);
      await until('the row has expired', EXPIRY_DEADLINE_MS, async () => {
        return (await paymentStatus(brief.url, key)).status === 404;
      });

      expectError(await paymentStatus(brief.url, key), 404, NO_PAYMENT);
      expectError(await pay(brief.url, key), 400, INVALID_KEY);
      expect((await readPayment(brief.url, key)).text).toBe(before);
    });
  });
});
