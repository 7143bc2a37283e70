import { describe, expect, test } from 'vitest';
import { readProcessorAccount, readProcessorUrl } from '#idempay/payments/processors/processor-url.js';

describe('the URL of a processor', () => {
  test.each([
    ['http://psp.example/', 'http://psp.example', ''],
    ['https://psp.example:8443/v1', 'https://psp.example:8443', '/v1'],
    ['HTTPS://PSP.example:443/V1//', 'https://psp.example', '/V1'],
    ['http://[::1]:9000/a/../b%20c', 'http://[::1]:9000', '/b%20c'],
    ['http://:@h', 'http://h', ''],
  ])('%s is read as origin and path, which are the first part of its name', (text, origin, path) => {
    const name = `${origin}${path}?no-user`;
    expect(readProcessorUrl(text)).toEqual({ name, origin, path, authorization: undefined });
  });

  test.each([
    ['http://:secret@h', ':secret'],
    ['http://user:a:b@h', 'user:a:b'],
    ['http://us%65r:%70%40ss%2F%25@h', 'user:p@ss/%'],
    ['http://nö:p@h', 'nö:p'],
  ])('%s has Basic credentials, percent-decoded, and a name without them', (text, credentials) => {
    expect(readProcessorUrl(text)).toMatchObject({
      name: expect.stringMatching(/^http:\/\/h\?(user=[0-9a-f]{12}|no-user)$/),
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
    });
  });

  const nameOf = (text: string, account?: string) => readProcessorUrl(text, account)?.name;

  test('is named by its account, else by its user: another one is another processor, another password is not (P14)', () => {
    const name = nameOf('http://merchant-a:secret@h/v1');
    expect(name).toMatch(/^http:\/\/h\/v1\?user=[0-9a-f]{12}$/);
    expect(nameOf('http://merchant%2Da:changed@h/v1')).toBe(name);
    expect(nameOf('http://merchant-b:secret@h/v1')).not.toBe(name);
    expect(nameOf('http://:secret@h/v1')).toBe('http://h/v1?no-user');
    for (const text of ['http://h', 'http://key-1:@h']) {
      expect(nameOf(text, 'merchant-a')).toBe('http://h?account=merchant-a');
    }
  });

  test.each([
    ['another scheme', 'ftp://h'],
    ['no scheme', 'psp.example/v1'],
    ['a port that is none', 'http://h:99999'],
    ['an empty query and a fragment', 'http://h/v1?#a'],
    ['percent signs that encode no UTF-8', 'http://user:%ff@h'],
    ['a colon in the user', 'http://us%3Aer:secret@h'],
    ['a control character in the password', 'http://user:%0d%0ax@h'],
  ])('with %s is none', (_what, text) => {
    expect(readProcessorUrl(text)).toBeUndefined();
  });
});

test('an account of a processor is a name of up to 64 letters, digits and . _ : @ -', () => {
  for (const account of ['a', 'ACC_7.eu:live@psp-1', '9'.repeat(64)]) {
    expect(readProcessorAccount(account)).toBe(account);
  }
  for (const account of ['', '-a', 'a b', 'a?b', 'ä', 'a/b', '9'.repeat(65)]) {
    expect(readProcessorAccount(account)).toBeUndefined();
  }
});
