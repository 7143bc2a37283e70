import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { type SecuredPostgres, startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { type SecuredRedis, startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { startSentinel } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { pause, until } from '../../testkit/time/until.js';

/**
 * Bug: `redis://host/99` silently served from database 0, and other settings that could never work left a service behind
 * that answered 503 for ever.
 * Cause: the client goes on when SELECT is refused, and every fault of Redis counted as "down". Fix: the servers are visited at start. A
 * setting that a server refuses ends the start; only a server that is down is waited for.
 */

const BACK_DEADLINE_MS = 30_000;
/** Longer than a process takes to start and to find that a store is down. */
const FOUND_AWAY_MS = 4_000;
const UNTRUSTING = { NODE_EXTRA_CA_CERTS: '' };

describe('at the start', () => {
  let redis: RedisServer;
  /** Asks for the password `secret`. */
  let locked: RedisServer;
  let replica: RedisServer;
  let sentinel: RedisServer;
  let cluster: Awaited<ReturnType<typeof startCluster>>;
  let securedRedis: SecuredRedis;
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;
  let secured: SecuredPostgres;
  let environment: Record<string, string>;

  beforeAll(async () => {
    [redis, locked, database, secured] = await Promise.all([
      startRedis(),
      startRedis(),
      createSharedDatabase(),
      startSecuredPostgres(['fsync=off']),
    ]);
    [replica, sentinel, cluster, securedRedis] = await Promise.all([
      startRedis(['--replicaof', '127.0.0.1', `${redis.port}`]),
      startSentinel(redis.port),
      startCluster(),
      startSecuredRedis(secured.authority),
    ]);
    environment = { NODE_EXTRA_CA_CERTS: secured.authority, REDIS_URL: redis.url, DATABASE_URL: database.url };
    await locked.client.config('SET', 'requirepass', 'secret');
    await redis.client.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~other:*', '+@all');
  });
  afterAll(() =>
    Promise.all([
      ...[redis, locked, replica, sentinel, cluster, securedRedis, secured].map((server) => server?.close()),
      database?.drop(),
    ]),
  );

  async function start(settings: Record<string, string>): Promise<Service> {
    const service = await startService({ ...environment, ...settings });
    onTestFinished(async () => void (await service.kill()));
    return service;
  }

  async function startPaying(settings: Record<string, string>): Promise<Service> {
    const service = await start(settings);
    await givenPaid(service.url);
    return service;
  }

  /** Ends with a sentence that begins with the setting's name, holds no password, and is no stack. One that waits has no exit code. */
  async function expectRefusal(name: string, url: string, sentence: RegExp, more = {}): Promise<void> {
    const { code, output } = await runToExit({ ...environment, ...more, [name]: url });
    expect(output.split('\n').find((line) => line.startsWith(`${name}: `))).toMatch(sentence);
    expect(code).toBe(1);
    expect(output, 'a stack').not.toMatch(/^\s+at /m);
    expect(output).not.toContain('not-this-one');
  }

  type Wrong = [what: string, url: () => string, sentence: RegExp, more?: Record<string, string>];
  const withUser = (url: string, user: string) => url.replace('//', `//${user}@`);
  const withPassword = (url: string, password: string) => url.replace(/:[^:@]*@/, `:${password}@`);
  const atSentinel = (path: string) => `redis+sentinel://127.0.0.1:${sentinel.port}/${path}`;

  test.each<Wrong>([
    ['of a database that the server does not have', () => `${redis.url}/99`, /127\.0\.0\.1:\d+ .*DB index.* database/],
    ['with a wrong password', () => withPassword(securedRedis.url, 'not-this-one'), /WRONGPASS.*password/],
    ['with a wrong password alone', () => withUser(locked.url, ':not-this-one'), /WRONGPASS.*password/],
    ['without a password', () => locked.url, /NOAUTH.*password/],
    [
      'of a user without rights',
      () => withUser(redis.url, 'narrow:secret'),
      /NOPERM.*rights.*docs\/operations\/deployment\.md/,
    ],
    ['with TLS', () => redis.url.replace('redis:', 'rediss:'), /does not speak TLS.*redis:\/\//],
    ['without TLS', () => securedRedis.url.replace('rediss:', 'redis:'), /TLS only.*rediss:\/\//],
    ['with an untrusted certificate', () => securedRedis.url, /certificate.*NODE_EXTRA_CA_CERTS/, UNTRUSTING],
    ['for Sentinels', () => `${redis.url.replace('redis:', 'redis+sentinel:')}/idempay`, /not a Sentinel/],
    ['for a Cluster', () => redis.url.replace('redis:', 'redis+cluster:'), /not a node of a Cluster/],
    ['not for Sentinels', () => `redis://127.0.0.1:${sentinel.port}`, /it is a Sentinel.*redis\+sentinel/],
    ['of an unknown master', () => atSentinel('other'), /no master named other/],
    // The rest of the URL is about the master behind a Sentinel.
    ['of a database that the master does not have', () => atSentinel('idempay/99'), /DB index/],
    ['not for a Cluster', () => `redis://127.0.0.1:${cluster.nodes[0]?.port}`, /node of a Cluster.*redis\+cluster/],
    ['of a replica', () => replica.url, /it is a replica/],
  ])('a REDIS_URL %s is refused where the server wants another one', (_what, url, sentence, more) =>
    expectRefusal('REDIS_URL', url(), sentence, more),
  );

  test.each<Wrong>([
    ['with a wrong password', () => withPassword(secured.userUrl, 'not-this-one'), /authentication failed.*password/],
    ['without a password', () => withPassword(secured.userUrl, ''), /password/],
    ['of an unknown user', () => database.url.replace('//idempay@', '//nobody@'), /"nobody".*user/],
    ['of an unknown database', () => database.url.replace(/\/test_\w+/, '/nowhere'), /"nowhere".*Create the database/],
    ['with TLS', () => `${database.url}?sslmode=verify-full`, /SSL.*sslmode/],
    ['without TLS', () => secured.userUrl.replace('verify-full', 'disable'), /sslmode=verify-full/],
    ['with an untrusted certificate', () => secured.userUrl, /certificate.*NODE_EXTRA_CA_CERTS/, UNTRUSTING],
    ['without its certificate', () => `${database.url}?sslmode=verify-full&sslrootcert=/no/ca.pem`, /\/no\/ca\.pem/],
  ])('a DATABASE_URL %s is refused where the server wants another one', (_what, url, sentence, more) =>
    expectRefusal('DATABASE_URL', url(), sentence, more),
  );

  test('a DATABASE_URL whose user may not create the schema, or not use what is in it, is refused', async () => {
    const { url } = database;
    const role = `guest_${new URL(url).pathname.slice(1)}`;
    const refused = (sentence: RegExp) =>
      expectRefusal('DATABASE_URL', url.replace('//idempay@', `//${role}@`), sentence);
    await runSql(url, `CREATE ROLE ${role} LOGIN`);
    try {
      // As the first start does: no schema is there yet.
      await runSql(url, 'DROP SCHEMA IF EXISTS idempay CASCADE');
      await refused(/permission denied.*schema idempay/);
      await startPaying({});
      await refused(/permission denied.*schema idempay/);
      await runSql(url, `GRANT USAGE, CREATE ON SCHEMA idempay TO ${role}`);
      await runSql(url, `GRANT ALL ON idempay.migrations TO ${role}`);
      await refused(/permission denied for table transfer/);
      await runSql(url, `GRANT SELECT ON idempay.payments, idempay.transfer TO ${role}`);
      await refused(/may not read and write .*payments/);
    } finally {
      await runSql(url, `DROP OWNED BY ${role}`);
      await runSql(url, `DROP ROLE ${role}`);
    }
  });

  test('a right password serves, and one that the server does not ask for is only warned of', async () => {
    await startPaying({ REDIS_URL: withUser(locked.url, ':secret') });
    const { logs } = await startPaying({ REDIS_URL: withUser(redis.url, ':early') });
    expect(logs.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/Redis asks for no password/));
  });

  test('a password that changes while the service runs costs 503 and no process, and all is back with it', async () => {
    const { client } = redis;
    await client.call('ACL', 'SETUSER', 'idempay', 'on', '>secret', '~*', '&*', '+@all');
    const password = decodeURIComponent(new URL(secured.userUrl).password);
    const REDIS_URL = withUser(redis.url, 'idempay:secret');
    const { url } = await startPaying({ DATABASE_URL: secured.userUrl, REDIS_URL });
    await client.call('ACL', 'SETUSER', 'idempay', 'resetpass', '>another');
    await client.call('CLIENT', 'KILL', 'USER', 'idempay');
    const generate = `${url}/api/server-generated/generate-key`;
    await until('503', BACK_DEADLINE_MS, async () => (await ask(generate)).status === 503);
    await client.call('ACL', 'SETUSER', 'idempay', '>secret');
    const key = await until('a key', BACK_DEADLINE_MS, () => generateKey(url).catch(() => undefined));

    await runSql(secured.adminUrl, "ALTER ROLE service PASSWORD 'another'");
    await runSql(secured.adminUrl, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'");
    expect((await pay(url, key)).status).toBe(503);
    await runSql(secured.adminUrl, `ALTER ROLE service PASSWORD '${password}'`);
    await until('the payment', BACK_DEADLINE_MS, async () => (await pay(url, key)).status === 200);
  });

  test('a store that is only down is waited for: PostgreSQL, until it comes or a signal ends the start', async () => {
    const stores = await openStoppableStores();
    try {
      await stores.postgres.stopImmediately();
      expect((await runToExit(stores.environment, { signalAfter: /the start waits/ })).code).toBe(0);
      const starting = stores.serve();
      await pause(FOUND_AWAY_MS);
      await stores.postgres.start();
      const { url, logs } = await starting;
      await givenPaid(url);
      const waits = logs.filter(({ msg }) => msg?.includes('the start waits'));
      // It is said again if the cause changes, as when the server is starting up.
      expect([...new Set(waits.map(({ msg }) => msg))]).toEqual([expect.stringMatching(/^DATABASE_URL: PostgreSQL/)]);
    } finally {
      await stores.close();
    }
  });

  test('a store that is only down is waited for: Redis, which is not used if it has no such database', async () => {
    const late = await startRedis(['--databases', '1']);
    try {
      await late.kill();
      const { url, logs } = await start({ REDIS_URL: `${late.url}/15` });
      await late.start();
      await until('the refusal of the database to be logged', BACK_DEADLINE_MS, () =>
        logs.some((line) => JSON.stringify(line).includes('DB index')),
      );
      expect((await ask(`${url}/api/server-generated/generate-key`)).status).toBe(503);
      expect(await late.client.keys('*')).toEqual([]);
    } finally {
      await late.close();
    }
  });
});
