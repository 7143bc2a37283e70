import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import { examinePostgres } from '#idempay/deployments/distributed/postgres/postgres-findings.js';
import { examineRedis } from '#idempay/deployments/distributed/redis/redis-findings.js';
import { type RedisLocation, readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import type { Finding } from '#idempay/health/finding.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { runToExit, startService } from '../../testkit/processes/service.js';
import { PASSWORD } from '../../testkit/servers/certificates.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import { type PostgresServer, runSql, startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { type SecuredPostgres, startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { type SecuredRedis, startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { startSentinel } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';

const SCRIPTS = new URL('../../src/deployments/distributed/redis/scripts/', import.meta.url);
const POOL_SIZE = 10;
/** Far more than all the limits of one store together. */
const BOUNDED_MS = 25_000;

const verdicts = (findings: readonly Finding[]) =>
  Object.fromEntries(findings.map(({ what, verdict }) => [what, verdict]));
const rowOf = (findings: readonly Finding[], what: string) => findings.find((finding) => finding.what === what);
const shiftedClock = (ms: number) => ({ ...systemClock, now: () => Date.now() + ms });
const redisOf = (url: string, clock = systemClock) => examineRedis(readRedisUrl(url) as RedisLocation, clock);
const postgresOf = (url: string, { poolSize = POOL_SIZE, clock = systemClock } = {}) =>
  examinePostgres(url, poolSize, clock);
/** Nobody listens there. */
const NOBODY = '127.0.0.1:1';

describe('idempay doctor', { timeout: 60_000 }, () => {
  let postgres: SecuredPostgres;
  let redis: SecuredRedis;
  beforeAll(async () => {
    postgres = await startSecuredPostgres([]);
    redis = await startSecuredRedis(postgres.authority);
  });
  afterAll(() => Promise.all([redis?.close(), postgres?.close()]));

  const doctor = async (settings: Record<string, string>) => {
    const environment = { NODE_EXTRA_CA_CERTS: postgres.authority, ...settings };
    const { code, output } = await runToExit(environment, { parameters: ['doctor'] });
    const lines = output.trimEnd().split('\n');
    const rows = lines.filter((line) => /^(ok|warning|wrong) /.test(line));
    const wrong = rows.filter((line) => line.startsWith('wrong'));
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD)]) expect(output).not.toContain(secret);
    expect(output, 'a stack').not.toMatch(/^\s+at /m);
    return { code, wrong, rows, last: lines.at(-1) };
  };

  test('finds nothing wrong with stores as docs/deployment.md asks for them, before, beside and after a service', async () => {
    const { url: PROCESSOR_URL, close } = await serveReferenceProcessor();
    const environment = {
      NODE_EXTRA_CA_CERTS: postgres.authority,
      REDIS_URL: redis.url,
      DATABASE_URL: postgres.userUrl,
      PROCESSOR_URL,
    };
    try {
      const before = await doctor(environment);
      expect(before).toMatchObject({
        code: 0,
        wrong: [],
        last: expect.stringMatching(/^0 wrong, \d+ warnings, \d+ ok\.$/),
      });
      expect(before.rows.filter((row) => /migrations/.test(row))).toEqual([expect.stringMatching(/none yet/)]);
      const schemas = await runSql(postgres.adminUrl, "SELECT FROM pg_namespace WHERE nspname = 'idempay'");
      expect(schemas, 'the doctor migrated').toEqual([]);

      const service = await startService(environment);
      const load = { done: false };
      const paying = (async () => {
        for (; !load.done; ) await givenPaid(service.url);
      })();
      const beside = await doctor(environment);
      load.done = true;
      await paying;
      await service.stop();
      expect(beside).toMatchObject({ code: 0, wrong: [] });
      expect(beside.rows.length).toBe(before.rows.length);
      expect(beside.rows.filter((row) => /migrations/.test(row))).toEqual([expect.stringMatching(/^ok .* all \d+/)]);
      expect(beside.rows.filter((row) => /TLS/.test(row) && /PostgreSQL|Redis/.test(row))).toEqual([
        expect.stringMatching(/^ok /),
        expect.stringMatching(/^ok /),
      ]);
    } finally {
      await close();
    }
  });

  test('ends with 1 and a row for each store that is away, refuses the log-in or is no processor', async () => {
    const wrongPassword = (url: string) => url.replace(/:[^:@]*@/, ':not-this-one@');
    const refusing = await doctor({
      REDIS_URL: wrongPassword(redis.url),
      DATABASE_URL: wrongPassword(postgres.userUrl),
      PROCESSOR_URL: `http://user:${encodeURIComponent(PASSWORD)}@${NOBODY}`,
    });
    expect(refusing).toMatchObject({ code: 1, last: expect.stringMatching(/^3 wrong/) });
    expect(refusing.wrong).toEqual([
      expect.stringMatching(/Redis .*WRONGPASS/),
      expect.stringMatching(/PostgreSQL .*authentication failed/),
      expect.stringMatching(/Processor look-up .*ECONNREFUSED/),
    ]);
    expect(refusing.wrong.join()).not.toContain('not-this-one');

    const login = `user:${encodeURIComponent(PASSWORD)}@${NOBODY}`;
    const away = await doctor({ REDIS_URL: `redis://${login}`, DATABASE_URL: `postgres://${login}/database` });
    expect(away).toMatchObject({ code: 1, last: expect.stringMatching(/^2 wrong/) });
  });

  test('says which settings cannot be read, and takes no arguments', async () => {
    const { code, output } = await runToExit({ REDIS_URL: redis.url }, { parameters: ['doctor'] });
    expect(code).toBe(1);
    expect(output).toMatch(/REDIS_URL is set but DATABASE_URL is not/);
    expect((await runToExit({}, { parameters: ['doctor', 'now'] })).code).toBe(1);
  });
});

describe('of Redis', { timeout: 60_000 }, () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis(['--appendonly', 'yes', '--maxmemory', '100mb']);
    await redis.client.config('SET', 'requirepass', 'secret');
  });
  afterAll(() => redis?.close());
  const url = () => redis.url.replace('//', '//:secret@');

  test('every row is ok for a good one', async () => {
    const findings = await redisOf(url());
    expect(findings.filter(({ verdict }) => verdict !== 'ok')).toEqual([]);
    expect(findings.length).toBeGreaterThan(10);
    expect(await redis.client.dbsize()).toBe(0);
  });

  test.each([
    ['maxmemory-policy', 'allkeys-lru', 'Redis maxmemory-policy', 'wrong'],
    ['maxmemory-policy', 'volatile-ttl', 'Redis maxmemory-policy', 'wrong'],
    ['appendonly', 'no', 'Redis appendonly', 'warning'],
    ['appendfsync', 'no', 'Redis appendfsync', 'warning'],
    ['maxmemory', '0', 'Redis maxmemory', 'warning'],
    ['min-replicas-to-write', '1', 'Redis writes', 'wrong'],
  ])('%s %s is found', async (setting, value, what, verdict) => {
    const [, before = ''] = (await redis.client.config('GET', setting)) as string[];
    await redis.client.config('SET', setting, value);
    const findings = await redisOf(url());
    await redis.client.config('SET', setting, before);
    expect(findings.filter((finding) => finding.verdict !== 'ok')).toEqual([
      expect.objectContaining({ what, verdict }),
    ]);
  });

  test('each right that a user lacks is named', async () => {
    const rights = '~idempay:* &idempay:* +@hash +@keyspace +@scripting +info +time +ping +dbsize +subscribe +publish';
    const setUser = (...more: string[]) =>
      redis.client.call('ACL', 'SETUSER', 'narrow', 'reset', 'on', '>secret', ...rights.split(' '), ...more);
    const found = async () => rowOf(await redisOf(redis.url.replace('//', '//narrow:secret@')), 'Redis rights');
    await setUser();
    expect(await found()).toMatchObject({ verdict: 'ok' });
    await setUser('-hset', '-publish');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: 'not allowed: HSET, PUBLISH' });
    await setUser('resetchannels');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: 'not allowed: SUBSCRIBE, PUBLISH' });
    await setUser('resetkeys', '~other:*');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringMatching(/not allowed: DEL, .*EVAL/) });
    await setUser('-eval');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringContaining('NOPERM') });
    await setUser('-@all', '+eval', '+info', '+time');
    const scripts = readdirSync(SCRIPTS).map((file) => readFileSync(new URL(file, SCRIPTS), 'utf8'));
    const sent = scripts.flatMap((script) => [...script.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name));
    const missing = (await found())?.found.replace('not allowed: ', '').split(', ');
    expect(sent.length).toBeGreaterThan(20);
    expect(missing, 'a command of a script is missing in redis-rights.ts').toEqual(
      expect.arrayContaining(sent.filter((name) => name !== 'INFO' && name !== 'TIME')),
    );
    await setUser('-info');
    expect(await redisOf(redis.url.replace('//', '//narrow:secret@'))).toEqual([
      expect.objectContaining({ verdict: 'wrong', found: expect.stringMatching(/NOPERM.*'info'/) }),
    ]);
  });

  test('a clock that is off is found', async () => {
    for (const [ms, verdict] of [
      [-2_000, 'warning'],
      [20_000, 'wrong'],
    ] as const) {
      expect(rowOf(await redisOf(url(), shiftedClock(ms)), 'Redis clock')).toMatchObject({ verdict });
    }
  });

  test('of a Cluster each master has its rows', async () => {
    const cluster = await startCluster();
    const masters = (await cluster.masters()).map(({ port }) => `Redis 127.0.0.1:${port}`);
    const found = verdicts(await redisOf(cluster.url));
    await cluster.close();
    expect(found['Redis Cluster']).toBe('ok');
    for (const master of masters) {
      expect(found).toMatchObject({ [`${master} role`]: 'ok', [`${master} rights`]: 'ok', [`${master} writes`]: 'ok' });
    }
    expect(Object.entries(found).filter(([, verdict]) => verdict === 'wrong')).toEqual([]);
    expect(verdicts(await redisOf(cluster.url))).toEqual({ Redis: 'wrong' });
  });

  test('a replica, behind Sentinels a master without enough of them, and a server that hangs are found', async () => {
    const replica = await startRedis(['--replicaof', '127.0.0.1', `${redis.port}`, '--masterauth', 'secret']);
    const sentinel = await startSentinel(redis.port);
    const proxy = await startTcpProxy(redis.port);
    try {
      expect(verdicts(await redisOf(replica.url))).toMatchObject({ 'Redis role': 'wrong' });
      const behind = await redisOf(`redis+sentinel://:secret@127.0.0.1:${sentinel.port}/idempay`);
      expect(verdicts(behind)).toMatchObject({ Sentinels: 'warning', 'Redis role': 'ok', 'Redis rights': 'ok' });
      const unknown = await redisOf(`redis+sentinel://:secret@127.0.0.1:${sentinel.port}/other`);
      expect(verdicts(unknown)).toEqual({ Sentinels: 'wrong', REDIS_URL: 'wrong' });
      proxy.blackhole('to client');
      const startedAt = performance.now();
      expect(await redisOf(proxy.through(url()))).toEqual([expect.objectContaining({ verdict: 'wrong' })]);
      expect(performance.now() - startedAt).toBeLessThan(BOUNDED_MS);
    } finally {
      await Promise.all([replica.close(), sentinel.close(), proxy.close()]);
    }
  });
});

describe('of PostgreSQL', { timeout: 60_000 }, () => {
  let primary: PostgresServer;
  beforeAll(async () => {
    primary = await startPostgres(['wal_level=replica', 'max_wal_senders=5']);
  });
  afterAll(() => primary?.close());
  const url = () => primary.url('postgres');

  test('only what a single server lacks is no row that is ok', async () => {
    const findings = await postgresOf(url());
    expect(findings.filter(({ verdict }) => verdict !== 'ok').map(({ what }) => what)).toEqual([
      'PostgreSQL synchronous_standby_names',
      'PostgreSQL data_checksums',
    ]);
    expect(rowOf(findings, 'PostgreSQL commit time')?.found).toMatch(/^[\d.]+ ms, .*5 commits/);
  });

  test('fsync, full_page_writes and synchronous_commit that are off are found', async () => {
    // The server that all tests share is as careless as that.
    const shared = await createSharedDatabase();
    const found = verdicts(await postgresOf(shared.url));
    await shared.drop();
    expect(found).toMatchObject({
      'PostgreSQL fsync': 'wrong',
      'PostgreSQL full_page_writes': 'warning',
      'PostgreSQL synchronous_commit': 'wrong',
    });
  });

  test('a standby, and a synchronous standby that confirms nothing, are found', async () => {
    const standby = await startStandby(primary);
    try {
      const findings = await postgresOf(standby.url('postgres'));
      expect(verdicts(findings)).toMatchObject({ 'PostgreSQL role': 'wrong' });
      expect(rowOf(findings, 'PostgreSQL commit time')).toBeUndefined();
    } finally {
      await standby.close();
    }
    await runSql(url(), "ALTER DATABASE postgres SET synchronous_commit = 'local'");
    await runSql(url(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await runSql(url(), 'SELECT pg_reload_conf()');
    expect(verdicts(await postgresOf(url()))).toMatchObject({
      'PostgreSQL synchronous_commit': 'warning',
      'PostgreSQL commit time': 'ok',
    });
    await runSql(url(), 'ALTER DATABASE postgres RESET synchronous_commit');
    expect(rowOf(await postgresOf(url()), 'PostgreSQL commit time')).toMatchObject({
      verdict: 'wrong',
      found: expect.stringMatching(/no synchronous standby/),
    });
    const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    expect(await runSql(url(), waiting), 'a connection that waits on').toEqual([]);
    await runSql(url(), 'ALTER SYSTEM RESET synchronous_standby_names');
    await runSql(url(), 'SELECT pg_reload_conf()');
  });

  test('a clock that is off, and too few connections, are found', async () => {
    const findings = await postgresOf(url(), { poolSize: 500, clock: shiftedClock(20_000) });
    expect(verdicts(findings)).toMatchObject({ 'PostgreSQL clock': 'wrong', 'PostgreSQL max_connections': 'wrong' });
    expect(verdicts(await postgresOf(url(), { poolSize: 90 }))).toMatchObject({
      'PostgreSQL max_connections': 'warning',
    });
  });

  test('missing rights, and migrations of a newer version, are found', async () => {
    const database = await primary.createDatabase('rights');
    const guest = database.replace('//idempay@', '//guest@');
    const found = async () => verdicts(await postgresOf(guest));
    await runSql(database, 'CREATE ROLE guest LOGIN CONNECTION LIMIT 3');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong', 'PostgreSQL max_connections': 'wrong' });
    await runSql(database, 'GRANT CREATE ON DATABASE rights TO guest');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'ok', 'PostgreSQL migrations': 'ok' });
    await runSql(database, 'CREATE SCHEMA idempay');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong' });
    await runSql(database, 'GRANT USAGE ON SCHEMA idempay TO guest');
    await runSql(database, 'CREATE TABLE idempay.migrations (name text)');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong', 'PostgreSQL migrations': 'wrong' });
    await runSql(database, "INSERT INTO idempay.migrations VALUES ('0001_payments.sql')");
    await runSql(database, 'GRANT ALL ON idempay.migrations TO guest');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'ok', 'PostgreSQL migrations': 'warning' });
    await runSql(database, "INSERT INTO idempay.migrations VALUES ('9999_of_tomorrow.sql')");
    expect(rowOf(await postgresOf(guest), 'PostgreSQL migrations')).toMatchObject({
      verdict: 'wrong',
      found: expect.stringContaining('9999_of_tomorrow'),
    });
  });

  test('a server that hangs is found in bounded time', async () => {
    const proxy = await startTcpProxy(primary.port);
    proxy.blackhole('to client');
    const startedAt = performance.now();
    const findings = await postgresOf(proxy.through(url()));
    await proxy.close();
    expect(findings).toEqual([expect.objectContaining({ what: 'PostgreSQL', verdict: 'wrong' })]);
    expect(performance.now() - startedAt).toBeLessThan(BOUNDED_MS);
  });
});
