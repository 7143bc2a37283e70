import { describe, expect, test } from 'vitest';
import { type ApiKey, ApiKeys, newSecret, readApiKeys, sha256Of } from '#idempay/access/api-keys.js';

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
