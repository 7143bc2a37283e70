import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectCompleted,
  expectFirst,
  expectReplay,
  expectUnspent,
  INVALID_KEY,
  keyRecord,
  MISSING_KEY,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Ways to write one key (decision P2). */
const SAME_KEY: [label: string, write: (key: string) => string][] = [
  ['in upper case', (key) => key.toUpperCase()],
  ['in mixed case', (key) => key.replace(/[a-f]/, (letter) => letter.toUpperCase())],
  ['between spaces and tabs', (key) => ` \t ${key}\t  `],
  ['quoted', (key) => `"${key}"`],
  ['quoted in upper case, between spaces', (key) => `  "${key.toUpperCase()}" `],
];

const EMPTY: [label: string, value: string][] = [
  ['an empty value', ''],
  ['a space', ' '],
  ['a tab', '\t'],
  ['an empty quoted string', '""'],
  ['an empty quoted string between spaces', '  "" '],
];

/** Values made from a generated key that are not it, and values that could never be one. */
const NOT_A_KEY: [label: string, write: (key: string) => string][] = [
  ['no dashes', (key) => key.replaceAll('-', '')],
  ['a character too many', (key) => `${key}0`],
  ['a character too few', (key) => key.slice(0, -1)],
  ['a letter that is no hexadecimal digit', (key) => `g${key.slice(1)}`],
  ['braces', (key) => `{${key}}`],
  ['a urn', (key) => `urn:uuid:${key}`],
  ['an opening quote only', (key) => `"${key}`],
  ['a closing quote only', (key) => `${key}"`],
  ['single quotes', (key) => `'${key}'`],
  ['a list of two', (key) => `${key}, ${key}`],
  ['a parameter', (key) => `${key};q=1`],
  ['a prefix as stores use', (key) => `lock:${key}`],
  ['a word', () => 'abc'],
  ['the value of a fresh key', () => 'KEY GENERATED'],
  ['a wildcard', () => '*'],
  ['a path', () => '../../etc/passwd'],
  ['SQL', (key) => `${key}' OR '1'='1`],
  ['the name of every prototype', () => '__proto__'],
  ['letters beyond ASCII', () => 'sch\u00fcssel'],
  ['eight thousand characters', () => 'a'.repeat(8_000)],
];

describeDeployments('Idempotency-Key header', (deployment) => {
  const service = shareService(deployment);

  describe.each(SAME_KEY)('written %s', (_label, write) => {
    it('is the key that was generated', async () => {
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, write(key)));
      expectReplay(await pay(service.url, key), transactionId);
      expectReplay(await pay(service.url, write(key)), transactionId);
      expectCompleted(await paymentStatus(service.url, write(key)), transactionId);
    });
  });

  describe.each(EMPTY)('with %s', (_label, value) => {
    it('counts as missing', async () => {
      expectError(await pay(service.url, value), 400, MISSING_KEY);
      expectError(await paymentStatus(service.url, value), 400, MISSING_KEY);
    });
  });

  describe.each(NOT_A_KEY)('with %s', (_label, write) => {
    it('is an invalid key and names no payment', async () => {
      const unpaid = await generateKey(service.url);
      expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
      await expectUnspent(service.url, unpaid);
      // Paid by now: no look-alike may read its result either.
      expectError(await pay(service.url, write(unpaid)), 400, INVALID_KEY);
      expectError(await paymentStatus(service.url, write(unpaid)), 404, NO_PAYMENT);
    });
  });

  describe('sent twice', () => {
    const payWith = (keys: string[]): Promise<Answer> =>
      ask(`${service.url}/api/payment`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'Idempotency-Key': keys },
        body: GOOD_BODY,
      });
    const statusWith = (keys: string[]): Promise<Answer> =>
      ask(`${service.url}/api/payment-status`, { headers: { 'Idempotency-Key': keys } });

    it('is an invalid key, also when both values are the same', async () => {
      const key = await generateKey(service.url);
      expectError(await payWith([key, key]), 400, INVALID_KEY);
      await expectUnspent(service.url, key);
    });

    it('is an invalid key when the values differ, and spends neither', async () => {
      const keys = [await generateKey(service.url), await generateKey(service.url)];
      expectError(await payWith(keys), 400, INVALID_KEY);
      for (const key of keys) await expectUnspent(service.url, key);
    });

    it('is an invalid key when one of them is empty', async () => {
      const key = await generateKey(service.url);
      expectError(await payWith(['', key]), 400, INVALID_KEY);
      expectError(await payWith([key, '']), 400, INVALID_KEY);
      await expectUnspent(service.url, key);
    });

    it('names no payment', async () => {
      const key = await generateKey(service.url);
      expectFirst(await pay(service.url, key));
      expectError(await statusWith([key, key]), 404, NO_PAYMENT);
    });
  });

  it('keeps the record readable by the bare UUID whatever form paid', async () => {
    const key = await generateKey(service.url);
    const transactionId = expectFirst(await pay(service.url, `"${key.toUpperCase()}"`));
    expect((await keyRecord(service.url, key)).json()).toMatchObject({ key, value: transactionId });
  });
});
