import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { isComputed } from '#idempay/payments/values/computed-key.js';
import {
  createComputeKey,
  isReference,
  LAST_ATTEMPT,
  lostNumberIn,
  mayBeListed,
  type Reference,
  readAttempt,
} from '#idempay/payments/values/reference.js';
import { NAMES_WITH_ABSENT_VALUE, NAMES_WITH_NUMBER, NAMES_WITHOUT_NUMBER } from '../../testkit/client/orders.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';

const DEPLOYMENT = '0123456789abcdef';
/** The rows of the tables of the documents, without white space and marks. */
const TABLE = readFileSync('docs/reference/references.md', 'utf8').replaceAll(/[ `]/g, '').split('\n');
const UUID_V8 = /^f[0-9a-f]{7}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const computeKey = createComputeKey(DEPLOYMENT);
const reference = (members: Partial<Reference> = {}): Reference => ({
  ...{ text: 'order-17', attempt: 1, client: undefined },
  ...members,
});

/** As docs/reference/references.md describes it, by the bytes of the hash, and not by its digits as the service does it. */
function keyOf(deploymentId: string, { text, attempt, client }: Reference): string {
  const hashed = [deploymentId, client, text, `${attempt}`].map((part) => {
    if (part === undefined) return Buffer.from('-');
    const bytes = Buffer.from(part);
    return Buffer.concat([Buffer.from(`${bytes.length}:`), bytes]);
  });
  const bytes = createHash('sha256').update(Buffer.concat(hashed)).digest().subarray(0, 16);
  bytes.writeUInt8(0xf0 | (bytes.readUInt8(0) & 0x0f), 0);
  // RFC 9562, section 5.8: the version in bits 48 to 51, the variant in bits 64 and 65.
  bytes.writeUInt8(0x80 | (bytes.readUInt8(6) & 0x0f), 6);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

describe('the key of a reference', () => {
  /** The documents have them, so that a program in another language can be checked. They never change. */
  test.each([
    [undefined, 1, 'f2f34734-19c7-82c9-b38c-68f00a192158'],
    [undefined, 2, 'f41101d2-3e9d-8dac-a910-72ffce1aaa82'],
    ['key:shop', 1, 'f40ddd5a-1218-83ae-82fb-3ad99a619a52'],
    ['key:shop', 2, 'f8e60f84-3068-8e25-97aa-d3763fbba37c'],
  ])('of client %s, attempt %i is %s', (client, attempt, key) => {
    expect(computeKey(reference({ client, attempt }))).toBe(key);
    const row = ['', DEPLOYMENT, client ?? 'none', 'order-17', `${attempt}`, key, ''];
    expect(TABLE).toContain(row.join('|'));
  });

  test('is the hash of deployment, client, text and attempt with the length of each in bytes, as a UUIDv8 that begins with f', () => {
    const clients = [undefined, 'key:shop', 'jwt:caf\u00e9', 'jwt-sub:\u{1f4b3}', ''];
    const texts = ['a', 'order-17', 'A-Z~._:/@', 'x'.repeat(128)];
    for (const client of clients) {
      for (const text of texts) {
        for (const attempt of [1, 9, 10, LAST_ATTEMPT]) {
          const one = { text, attempt, client };
          expect(computeKey(one)).toMatch(UUID_V8);
          expect(computeKey(one)).toBe(keyOf(DEPLOYMENT, one));
        }
      }
    }
  });

  test('differs with each part, and where the parts share a text', () => {
    const keys = [
      computeKey(reference()),
      createComputeKey('0123456789abcdee')(reference()),
      computeKey(reference({ text: 'order-1' })),
      computeKey(reference({ text: 'order-1', attempt: 71 })),
      computeKey(reference({ text: 'order-171' })),
      computeKey(reference({ text: 'Order-17' })),
      computeKey(reference({ attempt: 11 })),
      // No client is not the empty one, and not one that is called as it is hashed.
      computeKey(reference({ client: '' })),
      computeKey(reference({ client: '-' })),
      computeKey(reference({ client: 'key:shop' })),
      computeKey(reference({ client: 'key:shop8', text: ':order-17' })),
      computeKey(reference({ client: 'key:sho', text: 'porder-17' })),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  test('is above every generated key, and no generated key is taken for one', () => {
    const generated = [0, Date.now(), Date.UTC(9999, 11)].map(newKeyOf);
    for (let attempt = 1; attempt <= LAST_ATTEMPT; attempt += 1) {
      const key = computeKey(reference({ attempt }));
      expect(isComputed(key)).toBe(true);
      for (const other of generated) expect(other < key, other).toBe(true);
    }
    for (const other of [...generated, 'f2f34734-19c7-72c9-b38c-68f00a192158', 'e2f34734-19c7-82c9-b38c-68f00a192158'])
      expect(isComputed(other), other).toBe(false);
  });
});

test('a reference has 1 to 128 of its characters, and nothing else', () => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/@';
  for (const text of ['a', '-', 'order-17', alphabet, 'x'.repeat(128), '..', '//', 'a@b:c']) {
    expect(isReference(text), text).toBe(true);
  }
  const others = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter(
    (c) => !alphabet.includes(c),
  );
  for (const text of [
    '',
    'x'.repeat(129),
    'order 17',
    'order-17\n',
    '\norder-17',
    'caf\u00e9',
    '\u{1f4b3}',
    ...others,
  ]) {
    expect(isReference(text), JSON.stringify(text)).toBe(false);
  }
});

/**
 * Bug: `order-#1001` and `order-#1002`, whose URLs are cut at the `#`, shared one payment, and so did `order-` with an empty variable.
 * Cause: a name without its number was a reference. Fix: words and years alone are refused; rows that have such a name can be listed.
 */
test('a name that lost its number is no reference, and can be listed', () => {
  for (const text of NAMES_WITHOUT_NUMBER) {
    expect([text, lostNumberIn(text), isReference(text), mayBeListed(text)]).toEqual([
      text,
      'words alone',
      false,
      true,
    ]);
  }
  for (const text of NAMES_WITH_NUMBER) {
    expect([text, lostNumberIn(text), isReference(text), mayBeListed(text)]).toEqual([text, undefined, true, true]);
  }
  for (const text of NAMES_WITH_ABSENT_VALUE) {
    expect([text, lostNumberIn(text), isReference(text), mayBeListed(text)]).toEqual([
      text,
      'absent value',
      false,
      false,
    ]);
  }
  for (const text of ['order-nilssen', 'order-falsetto', '10000000-0000-0000-0000-000000000000']) {
    expect([text, isReference(text)]).toEqual([text, true]);
  }
  for (const text of ['', 'order 17-', 'order+']) expect([text, mayBeListed(text)]).toEqual([text, false]);
});

test('an attempt is a number from 1 to 99 in plain digits', () => {
  for (let attempt = 1; attempt <= LAST_ATTEMPT; attempt += 1) expect(readAttempt(`${attempt}`)).toBe(attempt);
  for (const text of ['', '0', '00', '01', '100', '-1', '+1', '1.0', '1e1', '0x1', ' 1', '1 ', '1\n', 'one', '\u0661'])
    expect(readAttempt(text), JSON.stringify(text)).toBeUndefined();
});
