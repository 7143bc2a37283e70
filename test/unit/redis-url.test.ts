import { describe, expect, test } from 'vitest';
import { ConfigError, readConfig } from '#idempay/config.js';
import { DatabaseAddress } from '#idempay/stores/postgres/connection/address.js';
import { databaseName, readDatabaseUrl } from '#idempay/stores/postgres/connection/url.js';
import { type RedisLocation, readRedisUrl, redisName } from '#idempay/stores/redis/connection/url.js';

const OPEN = { tls: false, username: undefined, password: undefined };
const USER = { tls: true, username: 'user', password: 'secret' };

const at = (host: string, port: number) => ({ host, port });
const standalone = (node = at('host', 6379), members = {}) => {
  return { topology: 'standalone', node, database: 0, ...OPEN, ...members };
};
const sentinel = (members = {}, sentinels = [at('host', 26379)]) => {
  return { topology: 'sentinel', sentinels, master: 'master', database: 0, ...OPEN, ...members };
};
const cluster = (members = {}, nodes = [at('host', 6379)]) => ({ topology: 'cluster', nodes, ...OPEN, ...members });

describe('REDIS_URL', () => {
  /** The forms of `docs/operations/deployment.md`, with and without each of their parts. */
  test.each([
    ['redis://host', standalone()],
    ['redis://host:1', standalone(at('host', 1))],
    ['redis://host:65535/15', standalone(at('host', 65535), { database: 15 })],
    ['redis://redis-0.example.internal:7000/0', standalone(at('redis-0.example.internal', 7000))],
    ['redis://[::1]', standalone(at('::1', 6379))],
    ['redis://[2001:db8::7]:7000/3', standalone(at('2001:db8::7', 7000), { database: 3 })],
    ['rediss://user:secret@host:6380/2', standalone(at('host', 6380), { database: 2, ...USER })],
    ['redis+sentinel://host/master', sentinel()],
    ['redis+sentinel://host/master/', sentinel()],
    ['redis+sentinel://a,b:7,[::1]:8/master/4', sentinel({ database: 4 }, [at('a', 26379), at('b', 7), at('::1', 8)])],
    ['rediss+sentinel://user:secret@host/the%20master', sentinel({ master: 'the master', ...USER })],
    ['redis+cluster://host/', cluster()],
    ['rediss+cluster://user:secret@a:1,b', cluster(USER, [at('a', 1), at('b', 6379)])],
  ])('%s is taken for what it says', (url, location) => {
    const read = readRedisUrl(url);
    expect(read).toEqual(location);
    const name = read && redisName(read);
    expect(name).not.toContain('secret');
    expect(readRedisUrl(`${name}`)).toEqual({ ...location, username: undefined, password: undefined });
  });

  test.each([
    ['user', 'user', undefined],
    ['user:', 'user', undefined],
    [':secret', undefined, 'secret'],
    ['', undefined, undefined],
    ['us%40er:p%40ss%2Fw%3Ard%25', 'us@er', 'p@ss/w:rd%'],
    ['user:a:b:%E2%82%AC', 'user', 'a:b:€'],
  ])('has the user and the password before its hosts: %s', (text, username, password) => {
    expect(readRedisUrl(`redis://${text}@host`)).toEqual({ ...standalone(), username, password });
  });

  const REFUSED = `host host:6379 http://host REDIS//host redis:host redis:// redis:///0 redis://user:secret@
    redis+standalone://host redis+clusters://host redis://host:0 redis://host:65536 redis://host:port redis://host:
    redis://host/-1 redis://host/zero redis://host/0/1 redis://host?db=1 redis://host#1 redis://a,b redis://::1 redis://[::1
    redis://[host] redis+sentinel://host redis+sentinel://host/ redis+sentinel://host//0 redis+sentinel://host/master/0/1
    redis+sentinel://host/master/x redis+sentinel://a,,b/master redis+cluster://host/0 redis+cluster://a, redis+cluster://,a`;
  test.each(['', ...REFUSED.split(/\s+/)])('is refused when it has no such form: %s', (url) => {
    expect(readRedisUrl(url)).toBeUndefined();
  });

  /**
   * Bug: a password with a bare percent sign ended the start with a stack trace, whatever else was wrong. Cause: the code that decodes it
   * threw. Fix: a URL that is not validly percent-encoded is one more problem of the list.
   */
  test.each([
    'redis://user:100%@host',
    'redis://us%er:secret@host',
    'redis+cluster://user:%E2%82@a,b',
    'rediss+sentinel://user:secret@host/%C3',
  ])('is a problem among the others when its bytes or percent signs encode no text: %s', (url) => {
    const environment = { REDIS_URL: url, DATABASE_URL: 'postgres://localhost/idempay', PORT: 'x' };
    expect(() => readConfig(environment)).toThrow(ConfigError);
    expect(() => readConfig(environment)).toThrow(/- PORT .*\n.*- REDIS_URL must have the form /);
  });
});

test('a URL is named in the log without user, password and parameters', () => {
  expect(redisName(cluster(USER) as RedisLocation)).toBe('rediss+cluster://host:6379');
  const url = 'postgres://user:secret@host:5433/shop?password=secret&sslmode=verify-full';
  expect(databaseName(url)).toBe('postgres://host:5433/shop');
});

test('a DATABASE_URL may name several hosts, of which only the primary is wanted, and is named in the log with them', () => {
  const url = 'postgres://user:secret@one:5432,two:5433/shop';
  for (const accepted of [url, `${url}?target_session_attrs=primary`, `${url}?target_session_attrs=read-write`]) {
    expect(readDatabaseUrl(accepted)).toBe(accepted);
    expect(databaseName(accepted)).toBe('postgres://one:5432,two:5433/shop');
  }
  for (const refused of ['any', 'standby', 'prefer-standby', 'read-only']) {
    expect(readDatabaseUrl(`${url}?target_session_attrs=${refused}`)).toBeUndefined();
  }
  expect(readDatabaseUrl('postgres://user:secret@one,,two/shop')).toBeUndefined();
});

/**
 * Bug: a DATABASE_URL with a wrong percent sign passed the start's check, and in DATABASE_URL_FILE it was taken while the service ran. Then
 * each new connection threw, outside every call that waits for one. Cause: the driver decodes the URL only in its constructor. Fix: it is
 * decoded first, as REDIS_URL is.
 */
test.each([
  'postgres://user:p%ffq@host/shop',
  'postgres://us%er:secret@host/shop',
  'postgres://user:secret@host/sh%C3op',
  'postgres://user:secret@%2Fvar%FF/shop',
])(
  'a DATABASE_URL whose percent signs encode no text is refused at the start and while the service runs: %s',
  (url) => {
    expect(() => readConfig({ REDIS_URL: 'redis://host', DATABASE_URL: url })).toThrow(
      /- DATABASE_URL must have the form .*percent-encoded/,
    );
    const address = new DatabaseAddress('postgres://user:secret@host/shop');
    expect(address.take(url)).toBe(false);
    expect(address.url).toBe('postgres://user:secret@host/shop');
  },
);

test('an address goes from host to host, and takes another password and nothing else', () => {
  const address = new DatabaseAddress('postgres://user:secret@one:5432,[::1]:5433/shop?sslmode=verify-full');
  expect(address.url).toBe('postgres://user:secret@one:5432/shop?sslmode=verify-full');
  address.leave('one:5432');
  // Another connection that failed at the same host, later.
  address.leave('one:5432');
  expect(address.url).toBe('postgres://user:secret@[::1]:5433/shop?sslmode=verify-full');
  expect(address.take('postgres://user:p%40ss@one:5432,[::1]:5433/shop?sslmode=verify-full')).toBe(true);
  expect(address.url).toBe('postgres://user:p%40ss@[::1]:5433/shop?sslmode=verify-full');
  for (const other of [
    'postgres://other:x@one:5432,[::1]:5433/shop?sslmode=verify-full',
    'postgres://user:x@one:5432/shop?sslmode=verify-full',
    'postgres://user:x@one:5432,[::1]:5433/other?sslmode=verify-full',
    'postgres://user:x@one:5432,[::1]:5433/shop?sslmode=disable',
    'postgres://user:x@one:5432,[::1]:5433/shop?sslmode=verify-full&password=x',
  ]) {
    expect(address.take(other), other).toBe(false);
  }
  expect(address.url).toContain(':p%40ss@');
});
