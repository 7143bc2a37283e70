import { describe, expect, it } from 'vitest';
import { expectNotModified, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectFirst,
  expectReplay,
  givenPaid,
  INVALID_KEY,
  NO_PAYMENT,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import {
  expectHeadAsGet,
  expectNoRecord,
  readPayment,
  resolvePayment,
  shownIn,
  shownPaymentOf,
} from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareHeldService } from '../../testkit/deployments/held-service.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { until, untilPast } from '../../testkit/time/until.js';

type Conditions = Record<string, string | string[]>;

/** The store's clock runs by the monotonic one, and the wall clock is corrected meanwhile. */
const CLOCKS_APART_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The defaults of the settings. */
const DAY_MS = 24 * HOUR_MS;
const LEASE_MS = 30_000;
const CLAIM_DEADLINE_MS = 5_000;
const CHARGE_MS = 500;
const OTHER_TAG = '"0123456789abcdef0123456789abcdef"';
const NO_KEYS = ['abc', `${UNKNOWN_KEY}0`, 'x'.repeat(8_000), '%20%20', '%00%01', 'caf%C3%A9', '%27%20OR%201=1'];

describeDeployments('GET /api/payments/{key}', (deployment) => {
  const shared = shareService(deployment);
  const slow = shareHeldService(deployment);
  const processed = shareProcessedService(deployment);

  it('shows a key that was issued as PENDING, in exactly this text, also after its payment was refused', async () => {
    const before = Date.now();
    const key = await generateKey(shared.url);
    const answer = await readPayment(shared.url, key);
    const { createdAt } = shownIn(answer);
    expect(answer.text).toBe(
      `{"idempotencyKey":"${key}","reference":null,"attempt":null,"state":"PENDING","amount":null,"currency":null,` +
        `"description":null,"metadata":null,"transactionId":null,"processor":null,"executions":0,"reason":null,"resolution":null,` +
        `"createdAt":"${createdAt}","claimedAt":null,"settledAt":null}`,
    );
    expect(Date.parse(createdAt as string)).toBeGreaterThanOrEqual(before - CLOCKS_APART_MS);
    expect(Date.parse(createdAt as string)).toBeLessThanOrEqual(Date.now() + CLOCKS_APART_MS);
    expectError(await pay(shared.url, key, { amount: '-1', currency: 'USD' }), 400, /amount/);
    expect((await readPayment(shared.url, key)).text).toBe(answer.text);
  });

  it('shows a payment as COMPLETED, in exactly this text, also after repeats and in each form of its key', async () => {
    const before = Date.now();
    const { key, transactionId } = await givenPaid(shared.url, { amount: 7.5, currency: 'eur' });
    const answer = await readPayment(shared.url, key);
    const { createdAt, claimedAt, settledAt } = shownIn(answer);
    expect(answer.text).toBe(
      `{"idempotencyKey":"${key}","reference":null,"attempt":null,"state":"COMPLETED","amount":"7.50",` +
        `"currency":"EUR","description":null,"metadata":null,"transactionId":"${transactionId}",` +
        `"processor":"simulated","executions":1,"reason":null,"resolution":null,` +
        `"createdAt":"${createdAt}","claimedAt":"${claimedAt}","settledAt":"${settledAt}"}`,
    );
    expect(Date.parse(createdAt as string)).toBeGreaterThanOrEqual(before - CLOCKS_APART_MS);
    expect(Date.parse(settledAt as string)).toBeLessThanOrEqual(Date.now() + CLOCKS_APART_MS);
    expectReplay(await pay(shared.url, key, { amount: '7', currency: 'USD' }), transactionId);
    for (const form of [key, key.toUpperCase(), `%22${key}%22`, `%20${key}%20`]) {
      expect((await readPayment(shared.url, form)).text).toBe(answer.text);
    }
  });

  it.each([UNKNOWN_KEY, ...NO_KEYS])('answers 404 for %s, which is no key or not known', async (key) => {
    expectNoRecord(await readPayment(shared.url, key));
    const head = await readPayment(shared.url, key, { method: 'HEAD' });
    expect([head.status, head.text, head.headers['idempay-key-state']]).toEqual([404, '', 'unknown']);
  });

  /**
   * Bug: a client whose key was dead asked for ever, or took a new key although the old one may have been charged. Cause: the 404 did not
   * say which of the two it is. Fix: the store of record says when it is certain.
   */
  it.each<[what: string, ageMs: number, state: 'expired-unpaid' | 'unknown']>([
    ['of a key from a time to come', -HOUR_MS, 'unknown'],
    ['of a young key, whose record may have been lost', 0, 'unknown'],
    ['of a key at the end of its life', DAY_MS, 'unknown'],
    ['of a key whose life ended a moment ago', DAY_MS + LEASE_MS + 4 * MINUTE_MS, 'unknown'],
    ['of a key whose life ended before', DAY_MS + LEASE_MS + 6 * MINUTE_MS, 'expired-unpaid'],
    ['of a key of last year', 365 * DAY_MS, 'expired-unpaid'],
  ])('says in a 404 %s whether something may have been charged with it', async (_what, ageMs, state) => {
    const key = newKeyOf(Date.now() - ageMs);
    expectNoRecord(await readPayment(shared.url, key), state);
    const head = await readPayment(shared.url, key, { method: 'HEAD' });
    expect(head.headers['idempay-key-state']).toBe(state);
    // The answer stays true: no payment is begun with the key.
    expectError(await pay(shared.url, key), 400, INVALID_KEY);
    expectError(await paymentStatus(shared.url, key), 404, NO_PAYMENT);
  });

  describe('with an entity tag', () => {
    const given = async () => {
      const { key } = await givenPaid(shared.url);
      const answer = await readPayment(shared.url, key);
      return { key, tag: tagOf(answer), text: answer.text };
    };
    const read = (key: string, headers: Conditions, method = 'GET') =>
      readPayment(shared.url, key, { headers, method });

    it('gives 304 when If-None-Match names it, and the payment when If-Match does; an unknown key is 404', async () => {
      const { key, tag, text } = await given();
      for (const form of [`"${tag}"`, [OTHER_TAG, `W/"${tag}"`], '*']) {
        for (const method of ['GET', 'HEAD'])
          expectNotModified(await read(key, { 'If-None-Match': form }, method), tag);
      }
      const conditions: Conditions[] = [{ 'If-None-Match': OTHER_TAG }, { 'If-Match': `"${tag}"` }];
      for (const headers of conditions) {
        const answer = await read(key, headers);
        shownIn(answer);
        expect([answer.text, tagOf(answer)]).toEqual([text, tag]);
      }
      expectError(await read(key, { 'If-Match': `W/"${tag}"` }), 412);
      for (const name of ['If-None-Match', 'If-Match']) {
        expectNoRecord(await read(UNKNOWN_KEY, { [name]: OTHER_TAG }));
      }
      await expectHeadAsGet(`${shared.url}/api/payments/${key}`, ['content-type', 'cache-control', 'etag']);
    });

    it('judges a condition before a resolution, and an unknown key is still 404', async () => {
      const { key, tag } = await given();
      const resolve = (of: string, headers: Record<string, string>) =>
        resolvePayment(shared.url, of, undefined, headers);
      expectError(await resolve(key, { 'If-Match': '"x"' }), 412);
      expectError(await resolve(key, { 'If-None-Match': '*' }), 412);
      // The condition holds: then it is refused for what it asks.
      expectError(await resolve(key, { 'If-Match': `"${tag}"` }), 409);
      for (const unpaid of [UNKNOWN_KEY, await generateKey(shared.url)]) {
        expectError(await resolve(unpaid, { 'If-Match': '"x"' }), 404, NO_PAYMENT);
      }
    });

    it('refuses a resolution with query parameters', async () => {
      const url = `${shared.url}/api/payments/${UNKNOWN_KEY}/resolution?outcome=completed`;
      const message = "'outcome' is not a query parameter of this path. Send it without parameters.";
      const headers = { 'Content-Type': 'application/json' };
      expectError(await ask(url, { method: 'POST', headers, body: '{}' }), 400, message);
    });
  });

  it('shows PROCESSING, with the id that it will have, until it is COMPLETED; each with a tag of its own', async () => {
    const key = await generateKey(slow.url);
    const pending = await readPayment(slow.url, key);
    const pendingTag = { headers: { 'If-None-Match': `"${tagOf(pending)}"` } };
    expectNotModified(await readPayment(slow.url, key, pendingTag), tagOf(pending));
    const { finished } = await beginPayment(slow.url, key, { amount: '9.90', currency: 'USD' });
    const processing = await until('the payment is claimed', CLAIM_DEADLINE_MS, async () => {
      const answer = await readPayment(slow.url, key, pendingTag);
      return answer.status !== 304 && answer;
    });
    const shown = shownIn(processing);
    expect(shown).toMatchObject({ state: 'PROCESSING', amount: '9.90', currency: 'USD', executions: 1 });

    await untilPast(CHARGE_MS);
    slow.release(key);
    const transactionId = expectFirst(await finished);
    const completed = await readPayment(slow.url, key);
    const { settledAt, ...rest } = shownIn(completed);
    expect({ ...rest, settledAt: null }).toEqual({ ...shown, state: 'COMPLETED' });
    expect(rest.transactionId).toBe(transactionId);
    expect(Date.parse(settledAt as string) - Date.parse(rest.claimedAt as string)).toBeGreaterThanOrEqual(CHARGE_MS);
    expect(new Set([pending, processing, completed].map(tagOf)).size).toBe(3);
  });

  it('shows a decline with its reason, which is final', async () => {
    const { url, processor } = processed();
    await processor.behave({ declineRate: 1 });
    const key = await generateKey(url);
    expectError(await pay(url, key), 402, 'Payment declined: insufficient funds');
    const payment = await shownPaymentOf(url, key);
    expect(payment).toMatchObject({ state: 'DECLINED', reason: 'insufficient funds', resolution: null, executions: 1 });
    expect(payment.processor).toBe(`${processor.url}?no-user`);
    const [charge] = await processor.chargesOf(key);
    expect(payment.transactionId).toBe(charge?.transactionId);
    expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
    await processor.behave({ declineRate: 0 });
  });

  /** The last one: the service ends. */
  it('shows the same after a restart', async () => {
    const keys = [(await givenPaid(shared.url)).key, await generateKey(shared.url)];
    const shown = async (url: string) => {
      const answers = await Promise.all(keys.map((key) => readPayment(url, key)));
      return answers.map(({ text, headers }) => [text, headers.etag]);
    };
    const before = await shown(shared.url);
    await shared.service.stop();
    expect(await shown((await shared.stores.serve()).url)).toEqual(before);
  });
});
