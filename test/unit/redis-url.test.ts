import { describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '#idempay/config.js';
import { databaseName } from '#idempay/deployments/distributed/postgres/database-url.js';
import { type RedisLocation, readRedisUrl, redisName } from '#idempay/deployments/distributed/redis/redis-url.js';

const OPEN = { tls: false, username: undefined, password: undefined };
const USER = { tls: true, username: 'user', password: 'secret' };

function node(text: string) {
  const [host = '', port = ''] = text.split(' ');
  return { host, port: Number(port) };
}

function standalone(at = 'host 6379', members = {}): RedisLocation {
  return { topology: 'standalone', node: node(at), database: 0, ...OPEN, ...members };
}

function sentinel(members = {}, ...at: string[]): RedisLocation {
  const sentinels = (at.length === 0 ? ['host 26379'] : at).map(node);
  return { topology: 'sentinel', sentinels, master: 'master', database: 0, ...OPEN, ...members };
}

function cluster(members = {}, ...at: string[]): RedisLocation {
  return { topology: 'cluster', nodes: (at.length === 0 ? ['host 6379'] : at).map(node), ...OPEN, ...members };
}

/** The forms of `docs/deployment.md`, with and without each of their parts. */
const TAKEN: [url: string, location: RedisLocation][] = [
  ['redis://host', standalone()],
  ['redis://host/', standalone()],
  ['redis://host:6379/0', standalone()],
  ['redis://host:1', standalone('host 1')],
  ['redis://host:65535/15', standalone('host 65535', { database: 15 })],
  ['redis://redis-0.example.internal:7000', standalone('redis-0.example.internal 7000')],
  ['redis://127.0.0.1', standalone('127.0.0.1 6379')],
  ['redis://[::1]', standalone('::1 6379')],
  ['redis://[2001:db8::7]:7000/3', standalone('2001:db8::7 7000', { database: 3 })],
  ['rediss://host', standalone('host 6379', { tls: true })],
  ['rediss://user:secret@host:6380/2', standalone('host 6380', { database: 2, ...USER })],
  ['redis+sentinel://host/master', sentinel()],
  ['redis+sentinel://host:26379/master/0', sentinel()],
  ['redis+sentinel://host/master/', sentinel()],
  ['redis+sentinel://a,b:7,[::1]:8/master/4', sentinel({ database: 4 }, 'a 26379', 'b 7', '::1 8')],
  ['redis+sentinel://host/the%20master%2F1', sentinel({ master: 'the master/1' })],
  ['rediss+sentinel://user:secret@host/master', sentinel(USER)],
  ['redis+cluster://host', cluster()],
  ['redis+cluster://host/', cluster()],
  ['redis+cluster://a:1,b,[2001:db8::1]:3', cluster({}, 'a 1', 'b 6379', '2001:db8::1 3')],
  ['rediss+cluster://user:secret@a,b', cluster(USER, 'a 6379', 'b 6379')],
];

const CREDENTIALS: [text: string, username: string | undefined, password: string | undefined][] = [
  ['user:secret', 'user', 'secret'],
  ['user', 'user', undefined],
  ['user:', 'user', undefined],
  [':secret', undefined, 'secret'],
  ['', undefined, undefined],
  ['us%40er:p%40ss%2Fw%3Ard%25', 'us@er', 'p@ss/w:rd%'],
  ['user:a:b:c', 'user', 'a:b:c'],
  ['user:%E2%82%AC', 'user', '€'],
  ['user:a+b', 'user', 'a+b'],
];

/** A percent sign here begins no sequence, or its bytes are no UTF-8. */
const BADLY_ENCODED = `redis://user:%zz@host redis://user:100%@host redis://us%er:secret@host redis://user:%ff@host
  redis+cluster://user:%E2%82@a,b redis+sentinel://host/ma%ster rediss+sentinel://user:secret@host/%C3`;

const REFUSED = `host host:6379 http://host REDIS//host redis:host redis:// redis:///0 redis://user:secret@
  redis+standalone://host redis+clusters://host valkey://host redis://host:0 redis://host:65536 redis://host:port
  redis://host: redis://host/-1 redis://host/zero redis://host/0/1 redis://host?db=1 redis://host#1 redis://a,b
  redis://::1 redis://[::1 redis://[host] redis+sentinel://host redis+sentinel://host/ redis+sentinel://host//0
  redis+sentinel://host/master/0/1 redis+sentinel://host/master/x redis+sentinel://a,,b/master
  redis+sentinel://a:0/master redis+cluster://host/0 redis+cluster://a, redis+cluster://,a redis+cluster://a:70000,b`;

describe('REDIS_URL', () => {
  test.each(TAKEN)('%s is taken for what it says', (url, location) => {
    expect(readRedisUrl(url)).toEqual(location);
  });

  test.each(CREDENTIALS)('has the user and the password before its hosts: %s', (text, username, password) => {
    for (const [url, location] of [
      [`redis://${text}@host`, standalone()],
      [`redis+sentinel://${text}@host/master`, sentinel()],
      [`redis+cluster://${text}@host`, cluster()],
    ] as const) {
      expect(readRedisUrl(url)).toEqual({ ...location, username, password });
    }
  });

  test.each(['', ...REFUSED.split(/\s+/)])('is refused when it has no such form: %s', (url) => {
    expect(readRedisUrl(url)).toBeUndefined();
  });

  /**
   * Bug: a password with a bare percent sign ended the start with a stack trace, whatever else was wrong. Cause: it threw
   * where it was decoded. Fix: a URL that is not validly percent-encoded is one more problem of the list.
   */
  test.each(BADLY_ENCODED.split(/\s+/))('is a problem among the others when it is badly percent-encoded: %s', (url) => {
    expect(readRedisUrl(url)).toBeUndefined();
    const problems = problemsOf({ REDIS_URL: url, DATABASE_URL: 'postgres://localhost/idempay', PORT: 'x' });
    expect(problems).toHaveLength(2);
    expect(problems).toContainEqual(expect.stringMatching(/^PORT /));
    expect(problems).toContainEqual(expect.stringMatching(/^REDIS_URL must have the form /));
  });
});

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

test.each([
  ['redis://user:secret@host', 'redis://host:6379/0'],
  ['rediss://:secret@[::1]:7000/3', 'rediss://[::1]:7000/3'],
  ['rediss+sentinel://user:secret@a,b:1/main/2', 'rediss+sentinel://a:26379,b:1/main/2'],
  ['redis+cluster://user:secret@a:1,b', 'redis+cluster://a:1,b:6379'],
])('%s is %s in the log', (url, name) => {
  const location = readRedisUrl(url);
  expect(location && redisName(location)).toBe(name);
});

test('a URL of PostgreSQL is named in the log without user, password and parameters', () => {
  const url = 'postgres://user:secret@host:5433/shop?password=secret&sslmode=verify-full';
  expect(databaseName(url)).toBe('postgres://host:5433/shop');
});
