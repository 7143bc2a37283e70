import { describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '#idempay/config.js';
import { isLoopback } from '#idempay/platform/loopback.js';

const KEYS = { API_KEYS_FILE: '/etc/keys.json' };
const TOKENS = { JWT_ISSUER: 'https://id.example', JWT_AUDIENCE: 'idempay', JWT_JWKS_URL: 'https://id.example/jwks' };

function problemsOf(environment: Record<string, string>): string {
  try {
    readConfig(environment);
    return '';
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.join('\n');
    throw error;
  }
}

describe('access', () => {
  test.each<[string, Record<string, string>, object]>([
    ['is open to names of this machine by default', {}, { kind: 'none', loopbackOnly: true }],
    [
      'is open to all on another HOST with AUTH=none',
      { AUTH: 'none', HOST: '::' },
      { kind: 'none', loopbackOnly: false },
    ],
    [
      'is open to every name with AUTH=none, also on a loopback HOST',
      { AUTH: 'none' },
      { kind: 'none', loopbackOnly: false },
    ],
    ['needs API keys', { AUTH: 'required', ...KEYS }, { kind: 'required', apiKeysFile: '/etc/keys.json' }],
    [
      'needs tokens, also on another HOST',
      { AUTH: 'required', HOST: '0.0.0.0', ...TOKENS },
      {
        kind: 'required',
        tokens: { issuer: 'https://id.example', audience: 'idempay', jwksUrl: 'https://id.example/jwks' },
      },
    ],
    [
      'finds the keys of an issuer itself',
      { AUTH: 'required', JWT_ISSUER: 'https://id.example/tenant', JWT_AUDIENCE: 'idempay' },
      { kind: 'required', tokens: { issuer: 'https://id.example/tenant', audience: 'idempay', jwksUrl: undefined } },
    ],
    ['needs either', { AUTH: 'required', ...KEYS, ...TOKENS }, { kind: 'required', apiKeysFile: '/etc/keys.json' }],
  ])('%s', (_title, environment, access) => {
    expect(readConfig(environment).access).toMatchObject(access);
  });

  test.each<[string, Record<string, string>, RegExp]>([
    [
      'another HOST without AUTH',
      { HOST: '0.0.0.0' },
      /^HOST 0.0.0.0 can be reached by others: set AUTH=required with/,
    ],
    [
      'AUTH=required without credentials',
      { AUTH: 'required' },
      /^AUTH=required needs credentials: set AUTH=required with/,
    ],
    ['an unknown AUTH', { AUTH: 'basic' }, /^AUTH must be one of none, required, not 'basic'/],
    ['keys without AUTH', KEYS, /^API_KEYS_FILE is set but nobody is asked for credentials: set AUTH=required/],
    ['keys with AUTH=none', { AUTH: 'none', ...KEYS }, /^API_KEYS_FILE is set but nobody is asked/],
    [
      'half of the token settings',
      { AUTH: 'required', JWT_ISSUER: 'x' },
      /^JWT_AUDIENCE must be set too: tokens need JWT_ISSUER and JWT_AUDIENCE/,
    ],
    [
      'keys of an issuer that is not named',
      { AUTH: 'required', JWT_JWKS_URL: TOKENS.JWT_JWKS_URL },
      /^JWT_ISSUER and JWT_AUDIENCE must be set too/,
    ],
    [
      'an issuer whose name is no URL, and no keys',
      { AUTH: 'required', JWT_ISSUER: 'id.example', JWT_AUDIENCE: 'idempay' },
      /^JWT_ISSUER id\.example is no URL to ask for its keys .*: set JWT_JWKS_URL too/,
    ],
    [
      'an issuer with a query, and no keys',
      { AUTH: 'required', JWT_ISSUER: 'https://id.example/?tenant=1', JWT_AUDIENCE: 'idempay' },
      /^JWT_ISSUER .* is no URL to ask for its keys/,
    ],
    // The password was printed.
    [
      'an issuer with a password, which is not printed,',
      { AUTH: 'required', JWT_ISSUER: 'https://user:p@ss/word@id.example/a', JWT_AUDIENCE: 'idempay' },
      /^JWT_ISSUER https:\/\/id\.example\/a is no URL to ask for its keys/,
    ],
    [
      'a name with a password, which is not printed,',
      { AUTH: 'required', JWT_ISSUER: 'user:password@id.example', JWT_AUDIENCE: 'idempay' },
      /^JWT_ISSUER id\.example is no URL to ask for its keys/,
    ],
    [
      'keys over plain HTTP',
      { AUTH: 'required', ...TOKENS, JWT_JWKS_URL: 'http://id.example/' },
      /^JWT_JWKS_URL must have the form/,
    ],
    [
      'keys from a URL with a password',
      { AUTH: 'required', ...TOKENS, JWT_JWKS_URL: 'https://u:p@id.example/' },
      /^JWT_JWKS_URL must/,
    ],
  ])('is refused at the start with %s', (_title, environment, problem) => {
    expect(problemsOf(environment)).toMatch(problem);
  });

  test.each(['127.0.0.1', '127.1.2.3', '::1', '[::1]', 'localhost', 'LOCALHOST', 'localhost.', 'shop.localhost'])(
    '%s is this machine',
    (host) => {
      expect(isLoopback(host)).toBe(true);
    },
  );

  test.each([
    '',
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '127.0.0.1.example',
    'localhost.example',
    'mylocalhost',
    '127.example',
    '[::2]',
  ])("'%s' may be another machine", (host) => {
    expect(isLoopback(host)).toBe(false);
  });
});
