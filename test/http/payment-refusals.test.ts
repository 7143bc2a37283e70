import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectBodyRefused,
  expectCompleted,
  expectFirst,
  expectInProgress,
  expectReplay,
  expectUnspent,
  givenPaid,
  INVALID_KEY,
  keyRecord,
  MISSING_KEY,
  NO_PAYMENT,
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

const DELAY = { PROCESSOR_DELAY_MS: '1000' };

/** Ways to write one key (decision P2). */
const SAME_KEY: [label: string, write: (key: string) => string][] = [
  ['in upper case', (key) => key.toUpperCase()],
  ['in mixed case', (key) => key.replace(/[a-f]/, (letter) => letter.toUpperCase())],
  ['between spaces and tabs', (key) => ` \t ${key}\t  `],
  ['quoted', (key) => `"${key}"`],
];

/** Values made from a generated key that are not it, and values that could never be one. */
const NOT_A_KEY: [label: string, write: (key: string) => string][] = [
  ['without dashes', (key) => key.replaceAll('-', '')],
  ['with a character too many', (key) => `${key}0`],
  ['with a letter that is no hexadecimal digit', (key) => `g${key.slice(1)}`],
  ['with an opening quote only', (key) => `"${key}`],
  ['in single quotes', (key) => `'${key}'`],
  ['twice in a list', (key) => `${key}, ${key}`],
  ['with a prefix as stores use', (key) => `lock:${key}`],
  ['that is a word', () => 'abc'],
  ['with SQL', (key) => `${key}' OR '1'='1`],
  ['that every prototype has', () => '__proto__'],
  ['with letters beyond ASCII', () => 'sch\u00fcssel'],
  ['of eight thousand characters', () => 'a'.repeat(8_000)],
];

/** The good body, written otherwise: canonical amount and currency are the same (decision P6). */
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

describeDeployments('the Idempotency-Key header', (deployment) => {
  const service = shareService(deployment);

  it.each(SAME_KEY)('means the generated key when it is written %s', async (_label, write) => {
    const key = await generateKey(service.url);
    const transactionId = expectFirst(await pay(service.url, write(key)));
    expectReplay(await pay(service.url, key), transactionId);
    expectReplay(await pay(service.url, write(key)), transactionId);
    expectCompleted(await paymentStatus(service.url, write(key)), transactionId);
    expect((await keyRecord(service.url, key)).json()).toMatchObject({ key, value: transactionId });
  });

  it.each(['', ' ', '\t', '""', '  "" '])('counts as missing when it is %j', async (value) => {
    expectError(await pay(service.url, value), 400, MISSING_KEY);
    expectError(await paymentStatus(service.url, value), 400, MISSING_KEY);
  });

  it.each(NOT_A_KEY)('is an invalid key and names no payment: a key %s', async (_label, write) => {
    const unpaid = await generateKey(service.url);
    expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
    await expectUnspent(service.url, unpaid);
    // Paid by now: no look-alike may read its result either.
    expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
    expectError(await paymentStatus(service.url, write(unpaid)), 404, NO_PAYMENT);
  });

  it('is an invalid key when it is sent twice, the same or not, and spends none; it names no payment', async () => {
    const [key, other] = [await generateKey(service.url), await generateKey(service.url)];
    const sent = (keys: string[]) => ({ headers: { 'Content-Type': 'application/json', 'Idempotency-Key': keys } });
    for (const keys of [
      [key, key],
      [key, other],
      ['', key],
      [key, ''],
    ]) {
      const payment = { ...sent(keys), method: 'POST', body: GOOD_BODY };
      expectError(await ask(`${service.url}/api/payment`, payment), 400, INVALID_KEY);
    }
    for (const unspent of [key, other]) await expectUnspent(service.url, unspent);
    expectError(await ask(`${service.url}/api/payment-status`, sent([key, key])), 404, NO_PAYMENT);
  });
});

/** Spec 4.1 endpoint 2, "in this order", as decision P3 reads it: when two things are wrong, which one is said. */
describeDeployments('the order of the payment rules', (deployment) => {
  const service = shareService(deployment);

  const payUnreadably = (url: string, key: string, { headers, body }: UnreadableBody): Promise<Answer> =>
    pay(url, key, body, headers ? { headers } : {});

  it.each(UNREADABLE_BODIES)('puts a missing key before $label, and that before any other key', async (unreadable) => {
    const headers = { 'Content-Type': 'application/json', ...unreadable.headers };
    const keyless = { method: 'POST', headers, body: unreadable.body };
    expectError(await ask(`${service.url}/api/payment`, keyless), 400, MISSING_KEY);
    expectError(await payUnreadably(service.url, '  ', unreadable), 400, MISSING_KEY);

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

  describe('while a payment is under way', () => {
    const slow = shareService(deployment, DELAY);

    it('puts an unreadable body before the lock, and the lock before the content', async () => {
      const key = await generateKey(slow.url);
      const { finished } = await beginPayment(slow.url, key);
      const unreadable = UNREADABLE_BODIES.map((body) => payUnreadably(slow.url, key, body));
      const readable = [...BAD_CONTENTS, GOOD_BODY].map((body) => pay(slow.url, key, body));
      for (const [index, { status }] of UNREADABLE_BODIES.entries()) {
        expectBodyRefused((await unreadable[index]) as Answer, status);
      }
      for (const answer of readable) expectInProgress(await answer);
      const transactionId = expectFirst(await finished);
      expectReplay(await pay(slow.url, key), transactionId);
    });
  });
});

/** Decision P6. */
describeDeployments('the same key with a different body', (deployment) => {
  describe.each([
    ['by default', {}],
    ['with PAYLOAD_MISMATCH=replay', { PAYLOAD_MISMATCH: 'replay' }],
  ])('%s', (_when, settings) => {
    const service = shareService(deployment, settings);

    it('gets the stored result', async () => {
      const { key, transactionId } = await givenPaid(service.url, GOOD_BODY);
      for (const body of OTHER_PAYMENTS) expectReplay(await pay(service.url, key, body), transactionId);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
    });
  });

  describe('with PAYLOAD_MISMATCH=reject', () => {
    const service = shareService(deployment, { PAYLOAD_MISMATCH: 'reject', ...DELAY });
    const MISMATCHES = [...OTHER_PAYMENTS, ...BAD_CONTENTS];

    it('is refused with 422 where it says something else, and gets the result where it says the same', async () => {
      const { key, transactionId } = await givenPaid(service.url, GOOD_BODY);
      for (const body of MISMATCHES) expectError(await pay(service.url, key, body), 422);
      for (const body of [...SAME_PAYMENT, GOOD_BODY]) expectReplay(await pay(service.url, key, body), transactionId);
      expectCompleted(await paymentStatus(service.url, key), transactionId);
      expectBodyRefused(await pay(service.url, key, '{"amount":'), 400);
      for (const body of MISMATCHES) expectError(await pay(service.url, UNKNOWN_KEY, body), 400, INVALID_KEY);
    });

    it('is refused with 422 while the payment is under way, with 409 where it says the same', async () => {
      const key = await generateKey(service.url);
      const { finished } = await beginPayment(service.url, key, GOOD_BODY);
      const others = OTHER_PAYMENTS.map((body) => pay(service.url, key, body));
      const same = SAME_PAYMENT.map((body) => pay(service.url, key, body));
      for (const answer of others) expectError(await answer, 422);
      for (const answer of same) expectInProgress(await answer);
      const transactionId = expectFirst(await finished);
      expectReplay(await pay(service.url, key, GOOD_BODY), transactionId);
    });

    it('is compared with the payment that was made, not with a body that was refused before it', async () => {
      const key = await generateKey(service.url);
      expectBodyRefused(await pay(service.url, key, '{"amount":"0","currency":"USD"}'), 400);
      await expectUnspent(service.url, key);
      expectReplay(await pay(service.url, key, GOOD_BODY));
    });
  });
});
