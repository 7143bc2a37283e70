import { describe, expect, test } from 'vitest';
import { type ApiKey, ApiKeys, isExpiry, newSecret, readApiKeys, sha256Of } from '#idempay/access/api-keys.js';

const NOW = Date.parse('2026-11-22T12:00:00Z');
const SHA256 = 'a'.repeat(64);
const ENTRY: ApiKey = { name: 'shop', scopes: ['payments:write'], sha256: SHA256 };

const read = (value: unknown) => readApiKeys(typeof value === 'string' ? value : JSON.stringify(value));

describe('a file of API keys', () => {
  test.each<[string, readonly unknown[]]>([
    ['no key', []],
    ['one key', [ENTRY]],
    ['two secrets of one client', [ENTRY, { ...ENTRY, sha256: 'b'.repeat(64), expiresAt: '2027-01-01T00:00:00Z' }]],
    [
      'every scope',
      [{ ...ENTRY, scopes: ['payments:read', 'transactions:read', 'transactions:write', 'operations', 'metrics'] }],
    ],
    ['a time with an offset', [{ ...ENTRY, expiresAt: '2027-01-01T00:00:00.5+01:00' }]],
  ])('with %s is read', (_what, keys) => {
    expect(read(keys)).toEqual(keys);
  });

  test.each<[string, unknown]>([
    ['no JSON', '[{]'],
    ['no array', ENTRY],
    ['no name', [{ ...ENTRY, name: undefined }]],
    ['an empty name', [{ ...ENTRY, name: '' }]],
    ['a name with a space', [{ ...ENTRY, name: 'my shop' }]],
    ['a name of 65 letters', [{ ...ENTRY, name: 'n'.repeat(65) }]],
    ['no scopes', [{ ...ENTRY, scopes: [] }]],
    ['an unknown scope', [{ ...ENTRY, scopes: ['payments'] }]],
    ['a secret instead of its hash', [{ ...ENTRY, sha256: newSecret() }]],
    ['a hash in capitals', [{ ...ENTRY, sha256: 'A'.repeat(64) }]],
    ['a date without a time', [{ ...ENTRY, expiresAt: '2027-01-01' }]],
    ['a misspelt member', [{ ...ENTRY, expires: '2027-01-01T00:00:00Z' }]],
  ])('with %s is refused, without showing what is in it', (_what, content) => {
    const result = read(content);
    expect(result).toEqual({ problem: expect.any(String) });
    expect(JSON.stringify(result)).not.toMatch(/idem_|aaaa|AAAA|shop/);
  });
});

/**
 * Bug: a secret whose expiry has the month 13 never worked, and one that expires on 30 February worked until 2 March.
 * Cause: only the form of a time was judged. Fix: a file with a time that does not exist is refused.
 */
test.each([
  '2027-13-01T00:00:00Z',
  '2027-01-01T23:59:60Z',
  '2027-01-01T00:00:00+25:00',
  '2027-02-30T00:00:00Z',
  '2027-04-31T12:00:00+02:00',
  '2027-02-29T00:00:00Z',
  '2027-01-00T00:00:00Z',
])('a file with an expiry that does not exist is refused, and the entry is named: %s', (expiresAt) => {
  expect(isExpiry(expiresAt)).toBe(false);
  expect(read([ENTRY, { ...ENTRY, expiresAt }])).toEqual({ problem: '/1/expiresAt is a time that does not exist' });
});

test.each(['2028-02-29T00:00:00Z', '2027-12-31T23:59:59-12:00', '2027-01-01T00:30+01:00'])(
  'an expiry that exists is taken: %s',
  (expiresAt) => {
    expect(isExpiry(expiresAt)).toBe(true);
    expect(read([{ ...ENTRY, expiresAt }])).toEqual([{ ...ENTRY, expiresAt }]);
  },
);

describe('a secret', () => {
  const secret = newSecret();
  const keysWith = (more: Partial<ApiKey>) => new ApiKeys([{ ...ENTRY, sha256: sha256Of(secret), ...more }]);

  test('has 256 random bits behind its prefix', () => {
    expect(secret).toMatch(/^idem_[A-Za-z0-9_-]{43}$/);
    expect(newSecret()).not.toBe(secret);
  });

  test('is the client of its entry, with the scopes of that entry', () => {
    const other = newSecret();
    const keys = new ApiKeys([
      { ...ENTRY, sha256: sha256Of(secret) },
      { ...ENTRY, sha256: sha256Of(other), scopes: ['metrics'] },
    ]);
    expect(keys.callerWith(secret, NOW)).toEqual({ client: 'key:shop', scopes: new Set(['payments:write']) });
    expect(keys.callerWith(other, NOW)).toEqual({ client: 'key:shop', scopes: new Set(['metrics']) });
  });

  test.each([
    ['another one', newSecret()],
    ['its beginning', secret.slice(0, -1)],
    ['its hash', sha256Of(secret)],
    ['nothing', ''],
  ])('is not %s', (_what, presented) => {
    expect(keysWith({}).callerWith(presented, NOW)).toBeUndefined();
  });

  test('is found among many, also where hashes begin alike', () => {
    const many = Array.from({ length: 200_000 }, (_, index) => ({ ...ENTRY, sha256: sha256Of(`idem_${index}`) }));
    const keys = new ApiKeys([...many, { ...ENTRY, name: 'last', sha256: sha256Of(secret) }]);
    expect(keys.callerWith(secret, NOW)?.client).toBe('key:last');
    expect(keys.callerWith('idem_199999', NOW)?.client).toBe('key:shop');
  });

  test('is refused from its expiry on', () => {
    const keys = keysWith({ expiresAt: '2026-11-22T13:00:00+01:00' });
    expect(keys.callerWith(secret, NOW - 1)).toBeDefined();
    expect(keys.callerWith(secret, NOW)).toBeUndefined();
  });
});
