import { describe, expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectFirst,
  expectReplay,
  givenPaid,
  NO_PAYMENT,
  UNKNOWN_KEY,
  untilPaid,
} from '../../testkit/client/payment-answers.js';
import { expectHeadAsGet, readPayment, shownIn, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const CLAIM_DEADLINE_MS = 5_000;

const NOT_FOUND: readonly [what: string, key: string][] = [
  ['was never generated', UNKNOWN_KEY],
  ['is no key', 'abc'],
  ['is too long', `${UNKNOWN_KEY}0`],
  ['has no hyphens', UNKNOWN_KEY.replaceAll('-', '')],
  ['is far too long', 'x'.repeat(8_000)],
  ['is white space', '%20%20'],
  ['is not printable', '%00%01'],
  ['is not ASCII', 'caf%C3%A9'],
  ['would be SQL', '%27%20OR%201=1'],
];

describeDeployments('GET /api/payments/{key}', (deployment) => {
  const shared = shareService(deployment);

  it('shows a key that was issued as PENDING, in exactly this text, also after its payment was refused', async () => {
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
    expectError(await pay(shared.url, key, { amount: '-1', currency: 'USD' }), 400, /amount/);
    expect((await readPayment(shared.url, key)).text).toBe(answer.text);
  });

  it('shows a payment as COMPLETED, in exactly this text, also after repeats and in each form of its key', async () => {
    const before = Date.now();
    const { key, transactionId } = await givenPaid(shared.url, { amount: 7.5, currency: 'eur' });
    const answer = await readPayment(shared.url, key);
    const { createdAt, claimedAt, settledAt } = shownIn(answer);
    expect(answer.text).toBe(
      `{"idempotencyKey":"${key}","state":"COMPLETED","amount":"7.50","currency":"EUR",` +
        `"transactionId":"${transactionId}","processor":"simulated","attempts":1,"reason":null,"resolution":null,` +
        `"createdAt":"${createdAt}","claimedAt":"${claimedAt}","settledAt":"${settledAt}"}`,
    );
    expect(Date.parse(createdAt)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(settledAt as string)).toBeLessThanOrEqual(Date.now());
    expectReplay(await pay(shared.url, key), transactionId);
    expectReplay(await pay(shared.url, key, { amount: '7', currency: 'USD' }), transactionId);
    for (const form of [key, key.toUpperCase(), `%22${key}%22`, `%20${key}%20`]) {
      expect((await readPayment(shared.url, form)).text).toBe(answer.text);
    }
  });

  it.each([
    ['1000', 'JPY', '1000'],
    ['0.001', 'KWD', '0.001'],
    ['5', 'USD', '5.00'],
    ['1234567890123.45', 'USD', '1234567890123.45'],
  ])('shows %s %s as exactly %s', async (amount, currency, shown) => {
    const { key } = await givenPaid(shared.url, { amount, currency });
    expect(await shownPaymentOf(shared.url, key)).toMatchObject({ amount: shown, currency });
  });

  it.each(NOT_FOUND)('answers 404 for a key that %s', async (_what, key) => {
    expectError(await readPayment(shared.url, key), 404, NO_PAYMENT);
    const head = await readPayment(shared.url, key, { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([404, '']);
  });

  it('answers HEAD as GET, without the body', async () => {
    const { key } = await givenPaid(shared.url);
    await expectHeadAsGet(`${shared.url}/api/payments/${key}`, ['content-type', 'cache-control', 'etag']);
  });

  it('shows the same after a restart', async () => {
    const stores = await deployment.open();
    try {
      const first = await stores.serve();
      const { key: paid } = await givenPaid(first.url);
      const keys = [paid, await generateKey(first.url)];
      const shown = async (url: string) => {
        const answers = await Promise.all(keys.map((key) => readPayment(url, key)));
        return answers.map(({ text, headers }) => [text, headers.etag]);
      };
      const before = await shown(first.url);
      await first.stop();
      expect(await shown((await stores.serve()).url)).toEqual(before);
    } finally {
      await stores.close();
    }
  });

  describe('with an entity tag', () => {
    const given = async () => {
      const { key } = await givenPaid(shared.url);
      const answer = await readPayment(shared.url, key);
      return { key, tag: tagOf(answer), text: answer.text };
    };
    const read = (key: string, headers: Record<string, string | string[]>, method = 'GET') =>
      readPayment(shared.url, key, { headers, method });

    it.each(MATCHING_FORMS)('gives 304 when If-None-Match names it by %s', async (_name, make) => {
      const { key, tag } = await given();
      for (const method of ['GET', 'HEAD']) {
        expectNotModified(await read(key, { 'If-None-Match': make(tag) }, method), tag);
      }
    });

    it.each(OTHER_FORMS)('gives the payment when If-None-Match has %s', async (_name, make) => {
      const { key, tag, text } = await given();
      const answer = await read(key, { 'If-None-Match': make(tag) });
      shownIn(answer);
      expect(answer.text).toBe(text);
      expect(tagOf(answer)).toBe(tag);
    });

    it('gives 304 for a key that has not paid, and the payment once it has', async () => {
      const key = await generateKey(shared.url);
      const tag = tagOf(await readPayment(shared.url, key));
      expectNotModified(await read(key, { 'If-None-Match': `"${tag}"` }), tag);
      expectFirst(await pay(shared.url, key));
      const answer = await read(key, { 'If-None-Match': `"${tag}"` });
      expect(shownIn(answer).state).toBe('COMPLETED');
      expect(tagOf(answer)).not.toBe(tag);
    });

    it('gives the payment whose tag is asked for, not another one, and 404 for an unknown key', async () => {
      const [one, other] = [await given(), await given()];
      expect((await read(other.key, { 'If-None-Match': `"${one.tag}"` })).status).toBe(200);
      for (const form of ['*', '"0123456789abcdef0123456789abcdef"']) {
        expectError(await read(UNKNOWN_KEY, { 'If-None-Match': form }), 404, NO_PAYMENT);
      }
    });

    it('gives the payment when If-Match names it, else 412', async () => {
      const { key, tag, text } = await given();
      expect((await read(key, { 'If-Match': `"${tag}"` })).text).toBe(text);
      expectError(await read(key, { 'If-Match': `W/"${tag}"` }), 412);
      expectError(await read(UNKNOWN_KEY, { 'If-Match': '"x"' }), 404, NO_PAYMENT);
    });

    it('judges a condition before a resolution, and an unknown key is still 404', async () => {
      const { key, tag } = await given();
      const resolution = { outcome: 'completed', reason: 'seen' };
      const resolve = (of: string, headers: Record<string, string>) =>
        sendJson(`${shared.url}/api/payments/${of}/resolution`, 'POST', resolution, headers);
      expectError(await resolve(key, { 'If-Match': '"x"' }), 412);
      expectError(await resolve(key, { 'If-None-Match': '*' }), 412);
      // The condition holds: then it is refused for what it asks.
      expectError(await resolve(key, { 'If-Match': `"${tag}"` }), 409);
      for (const unpaid of [UNKNOWN_KEY, await generateKey(shared.url)]) {
        expectError(await resolve(unpaid, { 'If-Match': '"x"' }), 404, NO_PAYMENT);
      }
      const answer = await sendJson(`${shared.url}/api/payments/${key}/resolution?outcome=completed`, 'POST', {});
      expectError(answer, 400, "'outcome' is no query parameter of this path. Send it without parameters.");
    });
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
    const processed = shareProcessedService(deployment);

    it('shows a decline with its reason, which is final', async () => {
      const { url, processor } = processed();
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
      const { url, processor } = processed();
      await processor.behave({ refuseWith: 503 });
      const key = await generateKey(url);
      expectError(await pay(url, key), 504);
      // Recovery makes attempts of its own meanwhile.
      const unclear = await shownPaymentOf(url, key);
      expect(unclear.state).toBe('PROCESSING');
      await processor.behave({ refuseWith: null });

      const done = await untilPaid(url, key);
      const { settledAt, attempts, ...rest } = await shownPaymentOf(url, key);
      expect({ ...rest, settledAt: null, attempts: unclear.attempts }).toEqual({ ...unclear, state: 'COMPLETED' });
      expect(transactionIdOf(done)).toBe(rest.transactionId);
      expect(attempts).toBeGreaterThan(unclear.attempts);
      expect(await processor.chargesOf(key)).toHaveLength(1);
    });
  });
});
