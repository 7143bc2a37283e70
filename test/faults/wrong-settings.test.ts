import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { type SecuredPostgres, startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { type SecuredRedis, startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { startSentinel } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { pause, until } from '../../testkit/time/until.js';

/**
 * Bug: `redis://host/99` silently served from database 0, and other settings that could never work left a service behind
 * that answered 503 for ever.
 * Cause: the client goes on when SELECT is refused, and every fault of Redis counted as "away".
 * Fix: the servers are visited at start. A setting that a server refuses ends the start; only what is away is waited for.
 */

/** Refused within a few seconds; a process takes some of them to come up on a busy machine. */
const REFUSED_MS = 12_000;
const BACK_DEADLINE_MS = 30_000;
/** Longer than a process takes to start and to find that a store is away. */
const FOUND_AWAY_MS = 4_000;

/** Ends with a sentence that begins with the setting's name, holds no password, and is no stack. */
async function expectRefusal(environment: Record<string, string>, sentence: RegExp): Promise<void> {
  const begun = performance.now();
  const { code, output } = await runToExit(environment);
  expect(output).toMatch(sentence);
  expect(code).toBe(1);
  expect(performance.now() - begun).toBeLessThan(REFUSED_MS);
  expect(output, 'a stack').not.toMatch(/^\s+at /m);
  expect(output).not.toContain('not-this-one');
}

async function administer(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

describe('a wrong REDIS_URL ends the start', { timeout: 60_000 }, () => {
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;
  let redis: RedisServer;
  let secured: SecuredRedis;
  let postgres: SecuredPostgres;
  let closing: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    postgres = await startSecuredPostgres(['fsync=off']);
    [database, redis, secured] = await Promise.all([
      createSharedDatabase(),
      startRedis(),
      startSecuredRedis(postgres.authority),
    ]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all([redis?.close(), secured?.close(), postgres?.close(), database?.drop()]);
  });
  afterEach(async () => {
    await Promise.all(closing.map((close) => close()));
    closing = [];
  });

  function refused(redisUrl: string, sentence: RegExp): Promise<void> {
    const trust = { NODE_EXTRA_CA_CERTS: postgres.authority };
    return expectRefusal({ ...trust, DATABASE_URL: database.url, REDIS_URL: redisUrl }, sentence);
  }

  test('that names a database which the server does not have', async () => {
    await refused(`${redis.url}/99`, /^REDIS_URL: Redis at 127\.0\.0\.1:\d+ cannot be used: .*DB index.* database/m);
  });

  test('with a wrong password, or without one', async () => {
    await refused(secured.url.replace(/:[^:@]*@/, ':not-this-one@'), /^REDIS_URL: .*WRONGPASS.*password/m);
    const locked = await startRedis();
    closing.push(locked.close);
    await locked.client.config('SET', 'requirepass', 'secret');
    await refused(locked.url, /^REDIS_URL: .*NOAUTH.*password/m);
    await refused(locked.url.replace('//', '//:not-this-one@'), /^REDIS_URL: .*WRONGPASS.*password/m);

    const right = { DATABASE_URL: database.url, REDIS_URL: locked.url.replace('//', '//:secret@') };
    const service = await startService(right);
    closing.push(() => service.kill());
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
  });

  test('whose user lacks rights on our keys', async () => {
    await redis.client.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~other:*', '+@all');
    await refused(redis.url.replace('//', '//narrow:secret@'), /^REDIS_URL: .*NOPERM.*rights.*docs\/deployment\.md/m);
  });

  test('with TLS at a plain server, without TLS at a server that wants it, with a certificate of nobody known', async () => {
    await refused(redis.url.replace('redis:', 'rediss:'), /^REDIS_URL: .*does not speak TLS.*redis:\/\//m);
    await refused(secured.url.replace('rediss:', 'redis:'), /^REDIS_URL: .*TLS only.*rediss:\/\//m);
    await expectRefusal(
      { DATABASE_URL: database.url, REDIS_URL: secured.url },
      /^REDIS_URL: .*certificate.*NODE_EXTRA_CA_CERTS/m,
    );
  });

  test('whose form is that of Sentinels or of a Cluster, at a plain server', async () => {
    const host = redis.url.replace('redis://', '');
    await refused(`redis+sentinel://${host}/idempay`, /^REDIS_URL: .*not a Sentinel/m);
    await refused(`redis+cluster://${host}`, /^REDIS_URL: .*not a node of a Cluster/m);
  });

  test('whose form is plain, at a Sentinel; and with a master that the Sentinel does not know', async () => {
    const sentinel = await startSentinel(redis.port);
    closing.push(sentinel.close);
    await refused(`redis://127.0.0.1:${sentinel.port}`, /^REDIS_URL: .*it is a Sentinel.*redis\+sentinel/m);
    await refused(`redis+sentinel://127.0.0.1:${sentinel.port}/other`, /^REDIS_URL: .*no master named other/m);
    // The master behind a Sentinel is held to the rest of the URL.
    await refused(`redis+sentinel://127.0.0.1:${sentinel.port}/idempay/99`, /^REDIS_URL: .*DB index/m);
  });

  test('whose form is plain, at a node of a Cluster', async () => {
    const cluster = await startCluster();
    closing.push(cluster.close);
    const url = `redis://127.0.0.1:${cluster.nodes[0]?.port}`;
    await refused(url, /^REDIS_URL: .*node of a Cluster.*redis\+cluster/m);
  });

  test('that names a replica', async () => {
    const replica = await startRedis(['--replicaof', '127.0.0.1', String(redis.port)]);
    closing.push(replica.close);
    await refused(replica.url, /^REDIS_URL: .*it is a replica/m);
  });

  test('but a password that the server does not ask for is only warned of', async () => {
    const service = await startService({
      DATABASE_URL: database.url,
      REDIS_URL: redis.url.replace('//', '//:early@'),
    });
    closing.push(() => service.kill());
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
    expect(service.logs.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/Redis asks for no password/));
  });
});

describe('a wrong DATABASE_URL ends the start', { timeout: 60_000 }, () => {
  let redis: RedisServer;
  let secured: SecuredPostgres;
  let plain: Awaited<ReturnType<typeof createSharedDatabase>>;

  beforeAll(async () => {
    [redis, secured, plain] = await Promise.all([
      startRedis(),
      startSecuredPostgres(['fsync=off']),
      createSharedDatabase(),
    ]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all([redis?.close(), secured?.close(), plain?.drop()]);
  });

  function refused(databaseUrl: string, sentence: RegExp, more: Record<string, string> = {}): Promise<void> {
    return expectRefusal({ REDIS_URL: redis.url, DATABASE_URL: databaseUrl, ...more }, sentence);
  }

  test('with a wrong password, without one, with a user that is not there', async () => {
    const trust = { NODE_EXTRA_CA_CERTS: secured.authority };
    const wrong = new URL(secured.userUrl);
    wrong.password = 'not-this-one';
    await refused(String(wrong), /^DATABASE_URL: .*password authentication failed.*password/m, trust);
    wrong.password = '';
    await refused(String(wrong), /^DATABASE_URL: .*password/m, trust);
    const nobody = plain.url.replace('//idempay@', '//nobody@');
    await refused(nobody, /^DATABASE_URL: .*"nobody".*user/m);
  });

  test('that names a database which is not there', async () => {
    await refused(plain.url.replace(/\/test_\w+/, '/nowhere'), /^DATABASE_URL: .*"nowhere".*Create the database/m);
  });

  test('with TLS at a plain server, without TLS for a user who needs it, with a certificate of nobody known', async () => {
    await refused(`${plain.url}?sslmode=verify-full`, /^DATABASE_URL: .*SSL.*sslmode/m);
    await refused(secured.userUrl.replace('verify-full', 'disable'), /^DATABASE_URL: .*sslmode=verify-full/m);
    await refused(secured.userUrl, /^DATABASE_URL: .*certificate.*NODE_EXTRA_CA_CERTS/m);
    const lost = `${plain.url}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`;
    await refused(lost, /^DATABASE_URL: .*\/nowhere\/ca\.pem/m);
  });

  test('whose user may not create the schema, or may not use what is in it', async () => {
    const stores = { REDIS_URL: redis.url, DATABASE_URL: plain.url };
    const role = `guest_${new URL(plain.url).pathname.slice(1)}`;
    const guest = plain.url.replace('//idempay@', `//${role}@`);
    await administer(plain.url, `CREATE ROLE ${role} LOGIN`);
    try {
      await refused(guest, /^DATABASE_URL: .*permission denied.*schema idempay/m);
      await (await startService(stores)).stop();
      await refused(guest, /^DATABASE_URL: .*permission denied.*schema idempay/m);
      await administer(
        plain.url,
        `GRANT USAGE, CREATE ON SCHEMA idempay TO ${role}`,
        `GRANT ALL ON idempay.migrations TO ${role}`,
        `GRANT SELECT ON idempay.payments TO ${role}`,
      );
      await refused(guest, /^DATABASE_URL: .*may not read and write .*payments/m);
    } finally {
      await administer(plain.url, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`);
    }
  });
});

describe('what is only away is waited for', { timeout: 60_000 }, () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let service: Service | undefined;
  beforeEach(async () => {
    stores = await openStoppableStores();
  });
  afterEach(async () => {
    await service?.kill();
    await stores.close();
  });

  test('PostgreSQL: the start goes on when it comes, and says once that it waits', async () => {
    await stores.postgres.stopImmediately();
    const starting = stores.start();
    await pause(FOUND_AWAY_MS);
    await stores.postgres.start();
    const { url, logs } = await starting;
    expect((await pay(url, await generateKey(url))).status).toBe(200);
    const waits = logs.filter(({ msg }) => msg?.includes('the start waits'));
    expect(waits.map(({ msg }) => msg)).toEqual([expect.stringMatching(/^DATABASE_URL: PostgreSQL/)]);
  });

  test('PostgreSQL: a signal ends a start that waits', async () => {
    await stores.postgres.stopImmediately();
    const { code } = await runToExit(stores.environment, { signalAfter: /the start waits/ });
    expect(code).toBe(0);
  });

  test('Redis: one that comes without the database of the URL is not served from another one', async () => {
    const late = await startRedis(['--databases', '1']);
    await late.kill();
    try {
      service = await startService({ ...stores.environment, REDIS_URL: `${late.url}/15` });
      await late.start();
      await until('the refusal of the database to be logged', BACK_DEADLINE_MS, () =>
        service?.logs.some((line) => JSON.stringify(line).includes('DB index')),
      );
      expect((await ask(`${service.url}/api/server-generated/generate-key`)).status).toBe(503);
      expect(await late.client.keys('*')).toEqual([]);
    } finally {
      await late.close();
    }
  });
});

describe('a password that changes while the service runs', { timeout: 60_000 }, () => {
  test('of Redis or PostgreSQL costs 503 and no process, and all is back with it', async () => {
    const postgres = await startSecuredPostgres(['fsync=off']);
    const redis = await startRedis();
    await redis.client.call('ACL', 'SETUSER', 'idempay', 'on', '>secret', '~*', '&*', '+@all');
    const administrator = `postgres://idempay@127.0.0.1:${postgres.port}/postgres`;
    const password = decodeURIComponent(new URL(postgres.userUrl).password);
    const service = await startService({
      NODE_EXTRA_CA_CERTS: postgres.authority,
      DATABASE_URL: postgres.userUrl,
      REDIS_URL: redis.url.replace('//', '//idempay:secret@'),
    });
    const generate = `${service.url}/api/server-generated/generate-key`;
    try {
      await redis.client.call('ACL', 'SETUSER', 'idempay', 'resetpass', '>another');
      await redis.client.call('CLIENT', 'KILL', 'USER', 'idempay');
      await until('503', BACK_DEADLINE_MS, async () => (await ask(generate)).status === 503);
      await redis.client.call('ACL', 'SETUSER', 'idempay', '>secret');
      const key = await until('a key', BACK_DEADLINE_MS, () => generateKey(service.url).catch(() => undefined));

      const cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'";
      await administer(administrator, "ALTER ROLE service PASSWORD 'another'", cut);
      expect((await pay(service.url, key)).status).toBe(503);
      await administer(administrator, `ALTER ROLE service PASSWORD '${password}'`);
      await until('the payment', BACK_DEADLINE_MS, async () => (await pay(service.url, key)).status === 200);
    } finally {
      await service.kill();
      await Promise.all([redis.close(), postgres.close()]);
    }
  });
});
