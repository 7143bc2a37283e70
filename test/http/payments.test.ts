import { Agent } from 'node:http';
import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, type Ask, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import {
  beginPayment,
  expectBodyRefused,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectJsonString,
  expectKeyValue,
  expectReplay,
  expectUnspent,
  givenPaid,
  INVALID_KEY,
  KEY_GENERATED,
  keyRecord,
  MISSING_KEY,
  NO_PAYMENT,
  UNKNOWN_KEY,
  untilPaid,
} from '../../testkit/client/payment-answers.js';
import {
  BAD_CONTENTS,
  GOOD_BODY,
  UNREADABLE_BODIES,
  type UnreadableBody,
} from '../../testkit/client/payment-bodies.js';
import { readPayment, resolvePayment } from '../../testkit/client/payment-records.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareHeldService } from '../../testkit/deployments/held-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const UUID = /^"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"$/;
const DAY_SECONDS = 86_400;
const EXPIRY_DEADLINE_MS = 10_000;
const JSON_TYPE = { 'Content-Type': 'application/json' };

const SAME_KEY = [(key: string) => key.toUpperCase(), (key: string) => ` \t ${key}\t  `, (key: string) => `"${key}"`];

/** Made from a generated key, or what never could be one; `test/unit/idempotency-key` has every form. */
const NOT_A_KEY: readonly ((key: string) => string)[] = [
  () => UNKNOWN_KEY,
  (key) => `${key}0`,
  (key) => `${key}, ${key}`,
  (key) => `${key}' OR '1'='1`,
  () => '__proto__',
  () => 'sch\u00fcssel',
  () => 'a'.repeat(8_000),
];

/** The good body, written otherwise: canonical amount and currency are the same (rule P6). */
const SAME_PAYMENT = [
  GOOD_BODY,
  '{"amount":100.5,"currency":"usd"}',
  '{ "currency":"USD", "amount":"100.50","note":"second attempt"}',
];
const OTHER_PAYMENTS = ['{"amount":"100.51","currency":"USD"}', '{"amount":"100.50","currency":"EUR"}'];

const ttlSeconds = async (url: string, key: string) =>
  (await keyRecord(url, key)).json<{ ttlSeconds: number }>().ttlSeconds;

describeDeployments('payments', (deployment) => {
  const service = shareService(deployment);

  it('begin with a new UUID as a JSON string, stored as KEY GENERATED, to expire after the default day', async () => {
    const answer = await ask(`${service.url}/api/server-generated/generate-key`);
    expectJsonString(answer, UUID);
    await expectKeyValue(service.url, answer.json<string>(), KEY_GENERATED);
    const seconds = await ttlSeconds(service.url, answer.json<string>());
    expect(seconds).toBeLessThanOrEqual(DAY_SECONDS);
    expect(seconds).toBeGreaterThan(DAY_SECONDS - 60);
  });

  /** Bug: the service made two commits all the same. Cause: the measures around the processor dropped its certain result. */
  it('are settled by their claim where nothing leaves the store: nothing is charged', async () => {
    await givenPaid(service.url);
    const samples = await scrape(service.url);
    expect(sumOf(samples, 'idempay_payments_settled_total', { by: 'first_claim' })).toBeGreaterThan(0);
    expect(sumOf(samples, 'idempay_processor_call_seconds_count', { call: 'charge' })).toBe(0);
  });

  it('are the value of their key, and answered the same to every repeat and question for the status', async () => {
    const { key, transactionId } = await givenPaid(service.url);
    for (let repeat = 0; repeat < 3; repeat += 1) {
      await expectKeyValue(service.url, key, transactionId);
      expectReplay(await pay(service.url, key), transactionId);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
    }
  });

  /** Rule P2. */
  describe('with an Idempotency-Key', () => {
    it.each(SAME_KEY)('pay once, however it is written: %s', async (write) => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, write(key)));
      for (const form of [key, write(key)]) expectReplay(await pay(service.url, form), transactionId);
      expectCompleted(await paymentStatus(service.url, write(key)), transactionId);
      await expectKeyValue(service.url, key, transactionId);
    });

    it.each(['', ' ', '  "" '])('that is empty are refused as without one: %j', async (value) => {
      expectError(await ask(`${service.url}/api/payment-status`), 400, MISSING_KEY);
      expectError(await pay(service.url, value), 400, MISSING_KEY);
      expectError(await paymentStatus(service.url, value), 400, MISSING_KEY);
    });

    it.each(NOT_A_KEY)('that is none are refused and not found: %s', async (write) => {
      const unpaid = await generateKey(service.url);
      expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
      await expectUnspent(service.url, unpaid);
      // Paid by now: no look-alike may read its result either.
      expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
      expectError(await paymentStatus(service.url, write(unpaid)), 404, NO_PAYMENT);
    });

    it('that is sent twice, the same or not, are refused and not found, and spend none', async () => {
      const [key, other] = [await generateKey(service.url), await generateKey(service.url)];
      for (const first of [key, other, '']) {
        const headers = { ...JSON_TYPE, 'Idempotency-Key': [first, key] };
        const payment = { method: 'POST', headers, body: GOOD_BODY };
        expectError(await ask(`${service.url}/api/payment`, payment), 400, INVALID_KEY);
        expectError(await ask(`${service.url}/api/payment-status`, { headers }), 404, NO_PAYMENT);
      }
      for (const unspent of [key, other]) await expectUnspent(service.url, unspent);
    });
  });

  /** Spec 4.1 endpoint 2, "in this order", as rule P3 reads it: when two things are wrong, which one is said. */
  describe('are refused in an order that', () => {
    const slow = shareHeldService(deployment);
    const payUnreadably = (url: string, key: string, { headers = {}, body }: UnreadableBody): Promise<Answer> =>
      pay(url, key, body, { headers });

    it.each(UNREADABLE_BODIES)('puts a missing key before $label, then any other key', async (unreadable) => {
      const keyless = { method: 'POST', headers: { ...JSON_TYPE, ...unreadable.headers }, body: unreadable.body };
      expectError(await ask(`${service.url}/api/payment`, keyless), 400, MISSING_KEY);
      const { key: paid, transactionId } = await givenPaid(service.url);
      const fresh = await generateKey(service.url);
      for (const key of [UNKNOWN_KEY, 'no-uuid', paid, fresh]) {
        expectBodyRefused(await payUnreadably(service.url, key, unreadable), unreadable.status);
      }
      expectReplay(await pay(service.url, paid), transactionId);
      await expectUnspent(service.url, fresh);
    });

    it.each(BAD_CONTENTS)('puts every key but a fresh one before the readable body %s', async (body) => {
      expectError(await pay(service.url, '', body), 400, MISSING_KEY);
      for (const key of [UNKNOWN_KEY, 'no-uuid']) expectError(await pay(service.url, key, body), 400, INVALID_KEY);
      const { key: paid, transactionId } = await givenPaid(service.url);
      expectReplay(await pay(service.url, paid, body), transactionId);
      const fresh = await generateKey(service.url);
      expectBodyRefused(await pay(service.url, fresh, body), 400);
      await expectUnspent(service.url, fresh);
    });

    /** The `Retry-After` is as earlier payments took. */
    it('puts an unreadable body before the lock, and the lock, in any form of the key, before the content', async () => {
      const key = await generateKey(slow.url);
      const { conflict, finished } = await beginPayment(slow.url, key);
      const unreadable = UNREADABLE_BODIES.map((body) => payUnreadably(slow.url, key, body));
      const readable = [...BAD_CONTENTS, GOOD_BODY].map((body) => pay(slow.url, key, body));
      const forms = SAME_KEY.map((write) => pay(slow.url, write(key)));
      const status = paymentStatus(slow.url, key);
      await expectKeyValue(slow.url, key, KEY_GENERATED);
      expectError(await status, 404, NO_PAYMENT);
      for (const [index, answer] of (await Promise.all(unreadable)).entries()) {
        expectBodyRefused(answer, UNREADABLE_BODIES[index]?.status ?? 0);
      }
      for (const answer of [conflict, ...readable, ...forms]) expectInProgress(await answer, 3);
      slow.release(key);
      const transactionId = expectFirst(await finished);
      expectReplay(await pay(slow.url, key), transactionId);
      expectCompleted(await paymentStatus(slow.url, key), transactionId);
    });
  });

  /** Rule P6. */
  describe('of another body with the same key', () => {
    const rejecting = shareHeldService(deployment, { PAYLOAD_MISMATCH: 'reject' });
    const MISMATCHES = [...OTHER_PAYMENTS, ...BAD_CONTENTS];

    it('are refused with 422 where that is set, also under way; the same payment written otherwise is not', async () => {
      const { url } = rejecting;
      const key = await generateKey(url);
      // Compared with the payment that is made, not with a body that was refused before it.
      expectBodyRefused(await pay(url, key, '{"amount":"0","currency":"USD"}'), 400);
      const { finished } = await beginPayment(url, key, GOOD_BODY);
      const others = OTHER_PAYMENTS.map((body) => pay(url, key, body));
      const same = SAME_PAYMENT.map((body) => pay(url, key, body));
      for (const answer of others) expectError(await answer, 422);
      for (const answer of same) expectInProgress(await answer);

      rejecting.release(key);
      const transactionId = expectFirst(await finished);
      for (const body of MISMATCHES) expectError(await pay(url, key, body), 422);
      for (const body of SAME_PAYMENT) expectReplay(await pay(url, key, body), transactionId);
      expectBodyRefused(await pay(url, key, '{"amount":'), 400);
      for (const body of MISMATCHES) expectError(await pay(url, UNKNOWN_KEY, body), 400, INVALID_KEY);
    });
  });
});

/** Rule P9. */
describeDeployments('an idempotency key', (deployment) => {
  // A commit that takes longer than a key lives would give a dead key.
  const service = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '3' });
  const longer = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '10' });
  // A machine that pauses for three seconds after a third of the lease is still in time for the renewal.
  const outlived = shareService(deployment, {
    IDEMPOTENCY_TTL_SECONDS: '4',
    LOCK_TTL_SECONDS: '5',
    PROCESSOR_DELAY_MS: '6500',
  });

  it.each([
    ['unused', () => generateKey(service.url)],
    ['after it has paid', async () => (await givenPaid(service.url)).key],
  ])('that expires %s is refused for ever, not processed; a payment is still shown', async (when, given) => {
    const key = await given();
    const shown = await readPayment(service.url, key);
    await until('the key is gone', EXPIRY_DEADLINE_MS, async () => (await keyRecord(service.url, key)).status === 404);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expectError(await pay(service.url, key), 400, INVALID_KEY);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
    }
    expectError(await keyRecord(service.url, key), 404, `Key '${key}' not found.`);
    if (when === 'unused') {
      expectError(await readPayment(service.url, key), 404, /^No payment found for this Idempotency-Key, /);
      expectError(await resolvePayment(service.url, key), 404, NO_PAYMENT);
    } else expect((await readPayment(service.url, key)).text).toBe(shown.text);
  });

  it('lives its whole life again when its payment completes', async () => {
    const key = await generateKey(longer.url);
    await until('its end is near', EXPIRY_DEADLINE_MS, async () => (await ttlSeconds(longer.url, key)) <= 5);
    const transactionId = expectFirst(await pay(longer.url, key));
    expect(await ttlSeconds(longer.url, key)).toBeGreaterThan(5);
    expectReplay(await pay(longer.url, key), transactionId);
    expect(await ttlSeconds(longer.url, key)).toBeLessThanOrEqual(10);
  });

  /** An invalid key would invite a second payment. */
  it('stays locked past its life and its lease while its payment takes longer, and never promises more', async () => {
    const key = await generateKey(outlived.url);
    const { finished } = await beginPayment(outlived.url, key);
    const repeat = await untilPaid(outlived.url, key, (answer) => {
      if (answer.status !== 503) expectInProgress(answer, 5);
    });
    expectReplay(repeat, expectFirst(await finished));
  });
});

const REQUESTS_AT_ONCE = 500;
/** The fault suite pays with far more keys while processes are killed. */
const KEYS = 250;
const CLIENTS = 64;

/** Exactly one answer has the first text; every other is the 409 or the stored result (rule P13). Returns the id. */
function expectOnePayment(answers: readonly Answer[]): string {
  const [first, ...others] = answers.filter(({ text }) => text.includes('Payment processed successfully'));
  expect(others).toEqual([]);
  const transactionId = expectFirst(first as Answer);
  for (const answer of answers) {
    if (answer === first) continue;
    if (answer.status === 409) expectInProgress(answer);
    else expectReplay(answer, transactionId);
  }
  return transactionId;
}

/** On a slow machine a store may miss a deadline of the service, as many callers as there are. */
const payAgainAfter503 = (url: string, key: string, more: Ask = {}) =>
  until('an answer', EXPIRY_DEADLINE_MS, async () => {
    const answer = await pay(url, key, undefined, more);
    return answer.status !== 503 && answer;
  });

describeDeployments('concurrent payments', (deployment) => {
  const service = shareService(deployment);
  const slow = shareHeldService(deployment);

  it.each([
    ['', () => service],
    [', whose charge ends when all others are refused', () => slow],
  ])(`make one payment of ${REQUESTS_AT_ONCE} requests at once on one key%s`, async (_where, of) => {
    const key = await generateKey(of().url);
    // Each on a connection of its own, so that none waits for another on our side.
    const agent = new Agent();
    let refused = 0;
    const sent = Array.from({ length: REQUESTS_AT_ONCE }, async () => {
      const answer = await payAgainAfter503(of().url, key, { agent });
      if (answer.status === 409) refused += 1;
      if (refused === REQUESTS_AT_ONCE - 1) slow.release(key);
      return answer;
    });
    const transactionId = expectOnePayment(await Promise.all(sent));
    if (of() === slow) expect(refused).toBe(REQUESTS_AT_ONCE - 1);
    expectReplay(await payAgainAfter503(of().url, key), transactionId);
    await expectKeyValue(of().url, key, transactionId);
  });

  it(`make ${KEYS} payments of ${KEYS} keys whose every request is sent two to four times by 64 clients`, async () => {
    const transactionIds = await inParallel(KEYS, CLIENTS, async (index) => {
      const key = await generateKey(service.url);
      const sent = Array.from({ length: 2 + (index % 3) }, () => payAgainAfter503(service.url, key));
      const transactionId = expectOnePayment(await Promise.all(sent));
      // Not held up by the 409 that its twin may have got: the payment is done once the first text was given.
      expectReplay(await payAgainAfter503(service.url, key), transactionId);
      return transactionId;
    });
    expect(new Set(transactionIds).size).toBe(KEYS);
  });
});
