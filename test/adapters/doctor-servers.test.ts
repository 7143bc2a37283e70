import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { findingsOfPostgres, findingsOfRedis, rowOf, runDoctor, verdictsOf } from '../../testkit/deployments/doctor.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { startService } from '../../testkit/processes/service.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import { type PostgresServer, runSql, startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { startSentinel } from '../../testkit/servers/sentinel.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';

/** Cases with several servers, or a server that does not answer; the rows of one are in doctor-distributed.test.ts. */
describe('idempay doctor', () => {
  test('finds nothing wrong with stores as docs/operations/deployment.md asks for them, before, alongside and after a service', async () => {
    const postgres = await startSecuredPostgres([]);
    const redis = await startSecuredRedis(postgres.authority);
    const { url: PROCESSOR_URL, close } = await serveReferenceProcessor();
    const environment = {
      NODE_EXTRA_CA_CERTS: postgres.authority,
      REDIS_URL: redis.url,
      DATABASE_URL: postgres.userUrl,
      PROCESSOR_URL,
    };
    try {
      const before = await runDoctor(environment);
      expect(before).toMatchObject({
        code: 0,
        wrong: [],
        last: expect.stringMatching(/^0 wrong, \d+ warnings?, \d+ ok\.$/),
      });
      expect(before.rows.filter((row) => /PostgreSQL schema/.test(row))).toEqual([
        expect.stringMatching(/ pending: 0001/),
      ]);
      const schemas = await runSql(postgres.adminUrl, "SELECT FROM pg_namespace WHERE nspname = 'idempay'");
      expect(schemas, 'the doctor migrated').toEqual([]);

      const service = await startService(environment);
      const load = { done: false };
      const paying = (async () => {
        for (; !load.done; ) await givenPaid(service.url);
      })();
      const beside = await runDoctor(environment);
      load.done = true;
      await paying;
      await service.stop();
      expect(beside).toMatchObject({ code: 0, wrong: [] });
      const whats = ({ rows }: typeof before) => new Set(rows.map((row) => row.slice(10, 48).trim()));
      // They ask the tables, which the service makes.
      const ofTables = [
        ...['orders without a number', 'PROCESSOR_URL and the payments', 'AUTH and the orders', 'Processor amounts'],
      ];
      expect(whats(beside)).toEqual(new Set([...whats(before), ...ofTables]));
      expect(beside.rows.filter((row) => /PostgreSQL schema/.test(row))).toEqual([
        expect.stringMatching(/ that of this version/),
      ]);
      expect(beside.rows.filter((row) => /TLS/.test(row) && /PostgreSQL|Redis/.test(row))).toEqual([
        expect.stringMatching(/^ok /),
        expect.stringMatching(/^ok /),
      ]);
    } finally {
      await Promise.all([close(), redis.close(), postgres.close()]);
    }
  });
});

describe('of Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
    await redis.client.config('SET', 'requirepass', 'secret');
  });
  afterAll(() => redis?.close());
  const url = () => redis.url.replace('//', '//:secret@');

  test('of a Cluster each master has its rows', async () => {
    const cluster = await startCluster();
    const masters = (await cluster.masters()).map(({ port }) => `Redis 127.0.0.1:${port}`);
    const found = verdictsOf(await findingsOfRedis(cluster.url));
    await cluster.close();
    expect(found['Redis Cluster']).toBe('ok');
    for (const master of masters) {
      expect(found).toMatchObject({ [`${master} role`]: 'ok', [`${master} rights`]: 'ok', [`${master} writes`]: 'ok' });
    }
    expect(Object.entries(found).filter(([, verdict]) => verdict === 'wrong')).toEqual([]);
    expect(verdictsOf(await findingsOfRedis(cluster.url))).toEqual({ Redis: 'wrong' });
  });

  test('a replica, behind Sentinels a master without enough of them, and a server that hangs are found', async () => {
    const replica = await startRedis(['--replicaof', '127.0.0.1', `${redis.port}`, '--masterauth', 'secret']);
    const sentinel = await startSentinel(redis.port);
    const proxy = await startTcpProxy(redis.port);
    try {
      expect(verdictsOf(await findingsOfRedis(replica.url))).toMatchObject({ 'Redis role': 'wrong' });
      const behind = await findingsOfRedis(`redis+sentinel://:secret@127.0.0.1:${sentinel.port}/idempay`);
      expect(verdictsOf(behind)).toMatchObject({ Sentinels: 'warning', 'Redis role': 'ok', 'Redis rights': 'ok' });
      const unknown = await findingsOfRedis(`redis+sentinel://:secret@127.0.0.1:${sentinel.port}/other`);
      expect(verdictsOf(unknown)).toEqual({ Sentinels: 'wrong', REDIS_URL: 'wrong' });
      proxy.blackhole('to client');
      expect(await findingsOfRedis(proxy.through(url()))).toEqual([expect.objectContaining({ verdict: 'wrong' })]);
    } finally {
      await Promise.all([replica.close(), sentinel.close(), proxy.close()]);
    }
  });
});

describe('of PostgreSQL', () => {
  let primary: PostgresServer;
  beforeAll(async () => {
    primary = await startPostgres(['wal_level=replica', 'max_wal_senders=5']);
  });
  afterAll(() => primary?.close());
  const url = () => primary.url('postgres');

  test('a standby, and a synchronous standby that confirms nothing, are found', async () => {
    const standby = await startStandby(primary);
    try {
      const findings = await findingsOfPostgres(standby.url('postgres'));
      expect(verdictsOf(findings)).toMatchObject({ 'PostgreSQL role': 'wrong' });
      expect(rowOf(findings, 'PostgreSQL commit time')).toBeUndefined();
    } finally {
      await standby.close();
    }
    await runSql(url(), "ALTER DATABASE postgres SET synchronous_commit = 'local'");
    await runSql(url(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await runSql(url(), 'SELECT pg_reload_conf()');
    expect(verdictsOf(await findingsOfPostgres(url()))).toMatchObject({
      'PostgreSQL synchronous_commit': 'warning',
      'PostgreSQL commit time': 'ok',
    });
    await runSql(url(), 'ALTER DATABASE postgres RESET synchronous_commit');
    expect(rowOf(await findingsOfPostgres(url()), 'PostgreSQL commit time')).toMatchObject({
      verdict: 'wrong',
      found: expect.stringMatching(/no synchronous standby/),
    });
    const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    expect(await runSql(url(), waiting), 'a connection that waits on').toEqual([]);
    await runSql(url(), 'ALTER SYSTEM RESET synchronous_standby_names');
    await runSql(url(), 'SELECT pg_reload_conf()');
  });

  test('a server that hangs is found while it hangs', async () => {
    const proxy = await startTcpProxy(primary.port);
    proxy.blackhole('to client');
    const findings = await findingsOfPostgres(proxy.through(url()));
    await proxy.close();
    expect(findings).toEqual([expect.objectContaining({ what: 'PostgreSQL', verdict: 'wrong' })]);
  });
});
