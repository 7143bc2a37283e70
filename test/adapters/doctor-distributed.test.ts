import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { doctor } from '#idempay/commands/operation/doctor.js';
import { systemClock } from '#idempay/platform/clock.js';
import { decorated } from '#idempay/platform/decorated.js';
import { readScripts } from '#idempay/stores/redis/scripts/script.js';
import { findingsOfPostgres, findingsOfRedis, rowOf, runDoctor, verdictsOf } from '../../testkit/deployments/doctor.js';
import { runToExit } from '../../testkit/processes/service.js';
import { PASSWORD } from '../../testkit/servers/certificates.js';
import { type PostgresServer, runSql, startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

const shiftedClock = (ms: number) => decorated(systemClock, { now: (next) => () => next() + ms });
/** Nobody listens there. */
const NOBODY = '127.0.0.1:1';

describe('idempay doctor', () => {
  test('ends with 1 and a row for each store that is down, refuses the log-in or is no processor', async () => {
    const postgres = await startSecuredPostgres([]);
    const redis = await startSecuredRedis(postgres.authority);
    const wrongPassword = (url: string) => url.replace(/:[^:@]*@/, ':not-this-one@');
    const login = `user:${encodeURIComponent(PASSWORD)}@${NOBODY}`;
    const [refusing, away] = await Promise.all([
      runDoctor({
        NODE_EXTRA_CA_CERTS: postgres.authority,
        REDIS_URL: wrongPassword(redis.url),
        DATABASE_URL: wrongPassword(postgres.userUrl),
        PROCESSOR_URL: `http://${login}`,
      }),
      runDoctor({ REDIS_URL: `redis://${login}`, DATABASE_URL: `postgres://${login}/database` }),
    ]);
    await Promise.all([redis.close(), postgres.close()]);
    expect(refusing).toMatchObject({ code: 1, last: expect.stringMatching(/^3 wrong/) });
    expect(refusing.wrong).toEqual([
      expect.stringMatching(/Redis .*WRONGPASS/),
      expect.stringMatching(/PostgreSQL .*authentication failed/),
      expect.stringMatching(/Processor look-up .*ECONNREFUSED/),
    ]);
    expect(refusing.wrong.join()).not.toContain('not-this-one');
    expect(away).toMatchObject({ code: 1, last: expect.stringMatching(/^2 wrong/) });
  });

  test('says which settings cannot be read, and takes no arguments', async () => {
    const settings = { REDIS_URL: 'redis://127.0.0.1' };
    await expect(doctor(settings)).rejects.toThrow(/REDIS_URL is set but DATABASE_URL is not/);
    const { code, output } = await runToExit({}, { parameters: ['doctor', 'now'] });
    expect([code, output]).toEqual([1, expect.stringMatching(/^too many arguments for 'doctor'/)]);
  });
});

describe('of Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis(['--appendonly', 'yes', '--maxmemory', '100mb']);
    await redis.client.config('SET', 'requirepass', 'secret');
  });
  afterAll(() => redis?.close());
  const url = () => redis.url.replace('//', '//:secret@');

  test('every row is ok for a good one', async () => {
    const findings = await findingsOfRedis(url());
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
    const findings = await findingsOfRedis(url());
    await redis.client.config('SET', setting, before);
    expect(findings.filter((finding) => finding.verdict !== 'ok')).toEqual([
      expect.objectContaining({ what, verdict }),
    ]);
  });

  test('each right that a user lacks is named', async () => {
    const rights =
      '~idempay:* &idempay:* +@hash +@keyspace +@scripting +info +time +ping +dbsize +subscribe +publish +xadd +xtrim +xread';
    const setUser = (...more: string[]) =>
      redis.client.call('ACL', 'SETUSER', 'narrow', 'reset', 'on', '>secret', ...rights.split(' '), ...more);
    const found = async () => rowOf(await findingsOfRedis(redis.url.replace('//', '//narrow:secret@')), 'Redis rights');
    await setUser();
    expect(await found()).toMatchObject({ verdict: 'ok' });
    await setUser('-hset', '-publish');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: 'not allowed: HSET, PUBLISH' });
    await setUser('-xadd', '-xread');
    expect(await found()).toMatchObject({
      ...{ verdict: 'warning', found: 'not allowed: XADD, XREAD' },
      why: expect.stringContaining('the live view shows only'),
    });
    await setUser('resetchannels');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: 'not allowed: SUBSCRIBE, PUBLISH' });
    await setUser('resetkeys', '~other:*');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringMatching(/not allowed: DEL, .*EVAL/) });
    await setUser('-eval');
    expect(await found()).toMatchObject({ verdict: 'wrong', found: expect.stringContaining('NOPERM') });
    await setUser('-@all', '+eval', '+info', '+time');
    const sent = readScripts().flatMap(({ text }) =>
      [...text.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name]) => name),
    );
    const missing = (await found())?.found.replace('not allowed: ', '').split(', ');
    expect(sent.length).toBeGreaterThan(20);
    expect(missing, 'a command of a script is missing in rights.ts').toEqual(
      expect.arrayContaining(sent.filter((name) => name !== 'INFO' && name !== 'TIME')),
    );
    await setUser('-info');
    expect(await findingsOfRedis(redis.url.replace('//', '//narrow:secret@'))).toEqual([
      expect.objectContaining({ verdict: 'wrong', found: expect.stringMatching(/NOPERM.*'info'/) }),
    ]);
  });

  test('a clock that is off is found', async () => {
    for (const [ms, verdict] of [
      [-2_000, 'warning'],
      [20_000, 'wrong'],
    ] as const) {
      expect(rowOf(await findingsOfRedis(url(), shiftedClock(ms)), 'Redis clock')).toMatchObject({ verdict });
    }
  });
});

describe('of PostgreSQL', () => {
  let primary: PostgresServer;
  beforeAll(async () => {
    primary = await startPostgres([]);
  });
  afterAll(() => primary?.close());
  const url = () => primary.url('postgres');

  test('every row is ok except the two that need more than a default single server', async () => {
    const findings = await findingsOfPostgres(url());
    expect(findings.filter(({ verdict }) => verdict !== 'ok').map(({ what }) => what)).toEqual([
      'PostgreSQL synchronous_standby_names',
      'PostgreSQL data_checksums',
    ]);
    expect(rowOf(findings, 'PostgreSQL commit time')?.found).toMatch(/^[\d.]+ ms, .*5 commits/);
  });

  test('fsync, full_page_writes and synchronous_commit that are off are found', async () => {
    // The server that all tests share is as careless as that.
    const shared = await createSharedDatabase();
    const found = verdictsOf(await findingsOfPostgres(shared.url));
    await shared.drop();
    expect(found).toMatchObject({
      'PostgreSQL fsync': 'wrong',
      'PostgreSQL full_page_writes': 'warning',
      'PostgreSQL synchronous_commit': 'wrong',
    });
  });

  test('a clock that is off, and too few connections, are found', async () => {
    const findings = await findingsOfPostgres(url(), { poolSize: 500, clock: shiftedClock(20_000) });
    expect(verdictsOf(findings)).toMatchObject({ 'PostgreSQL clock': 'wrong', 'PostgreSQL max_connections': 'wrong' });
    expect(verdictsOf(await findingsOfPostgres(url(), { poolSize: 90 }))).toMatchObject({
      'PostgreSQL max_connections': 'warning',
    });
  });

  test('missing rights, and a schema of a newer version, are found', async () => {
    const database = await primary.createDatabase('rights');
    const guest = database.replace('//idempay@', '//guest@');
    const found = async () => verdictsOf(await findingsOfPostgres(guest));
    await runSql(database, 'CREATE ROLE guest LOGIN CONNECTION LIMIT 3');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong', 'PostgreSQL max_connections': 'wrong' });
    await runSql(database, 'GRANT CREATE ON DATABASE rights TO guest');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'ok', 'PostgreSQL schema': 'ok' });
    await runSql(database, 'CREATE SCHEMA idempay');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong' });
    await runSql(database, 'GRANT USAGE ON SCHEMA idempay TO guest');
    await runSql(database, 'CREATE TABLE idempay.migrations (name text, mode text)');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'wrong', 'PostgreSQL schema': 'wrong' });
    await runSql(database, "INSERT INTO idempay.migrations VALUES ('0001_schema.sql', 'full stop')");
    await runSql(database, 'GRANT ALL ON idempay.migrations TO guest');
    expect(await found()).toMatchObject({ 'PostgreSQL rights': 'ok', 'PostgreSQL schema': 'ok' });
    await runSql(database, "INSERT INTO idempay.migrations VALUES ('9999_of_tomorrow.sql', 'full stop')");
    expect(rowOf(await findingsOfPostgres(guest), 'PostgreSQL schema')).toMatchObject({
      verdict: 'wrong',
      found: expect.stringContaining('9999_of_tomorrow'),
    });
  });
});
