import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { runSql } from '../../testkit/servers/run-sql.js';
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

const BACK_DEADLINE_MS = 30_000;
/** Longer than a process takes to start and to find that a store is away. */
const FOUND_AWAY_MS = 4_000;

let redis: RedisServer;
let securedRedis: SecuredRedis;
let database: Awaited<ReturnType<typeof createSharedDatabase>>;
let secured: SecuredPostgres;
/** Needed by whoever uses the secured servers. */
let trust: Record<string, string>;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  secured = await startSecuredPostgres(['fsync=off']);
  trust = { NODE_EXTRA_CA_CERTS: secured.authority };
  const starts = [startRedis(), startSecuredRedis(secured.authority), createSharedDatabase()] as const;
  [redis, securedRedis, database] = await Promise.all(starts);
}, 60_000);
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(() => Promise.all([redis?.close(), securedRedis?.close(), secured?.close(), database?.drop()]));

/** Closed after the test. */
async function opened<T extends { close(): Promise<unknown> }>(opening: Promise<T>): Promise<T> {
  const value = await opening;
  closing.push(() => value.close());
  return value;
}

async function startPaying(environment: Record<string, string>): Promise<Service> {
  const service = await startService(environment);
  closing.push(() => service.kill());
  expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
  return service;
}

/** One that waits is killed and has no exit code. Ends with a sentence that begins with the setting's name, holds no password, and is no stack. */
async function expectRefusal(environment: Record<string, string>, sentence: RegExp): Promise<void> {
  const { code, output } = await runToExit(environment);
  expect(output).toMatch(sentence);
  expect(code).toBe(1);
  expect(output, 'a stack').not.toMatch(/^\s+at /m);
  expect(output).not.toContain('not-this-one');
}

const withUser = (url: string, user: string) => url.replace('//', `//${user}@`);

describe('a wrong REDIS_URL ends the start', { timeout: 60_000 }, () => {
  const refused = (url: string, sentence: RegExp, more = trust) =>
    expectRefusal({ ...more, DATABASE_URL: database.url, REDIS_URL: url }, sentence);

  test('that names a database which the server does not have', async () => {
    await refused(`${redis.url}/99`, /^REDIS_URL: Redis at 127\.0\.0\.1:\d+ cannot be used: .*DB index.* database/m);
  });

  test('with a wrong password, or without one; the right one serves', async () => {
    const wrong = securedRedis.url.replace(/:[^:@]*@/, ':not-this-one@');
    await refused(wrong, /^REDIS_URL: .*WRONGPASS.*password/m);
    const { client, url } = await opened(startRedis());
    await client.config('SET', 'requirepass', 'secret');
    await refused(url, /^REDIS_URL: .*NOAUTH.*password/m);
    await refused(withUser(url, ':not-this-one'), /^REDIS_URL: .*WRONGPASS.*password/m);
    await startPaying({ DATABASE_URL: database.url, REDIS_URL: withUser(url, ':secret') });
    await startPaying({ ...trust, DATABASE_URL: secured.userUrl, REDIS_URL: securedRedis.url });
  });

  test('whose user lacks rights on our keys', async () => {
    await redis.client.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', '~other:*', '+@all');
    await refused(withUser(redis.url, 'narrow:secret'), /^REDIS_URL: .*NOPERM.*rights.*docs\/deployment\.md/m);
  });

  test('with TLS at a plain server, without TLS at a server that wants it, with an untrusted certificate', async () => {
    await refused(redis.url.replace('redis:', 'rediss:'), /^REDIS_URL: .*does not speak TLS.*redis:\/\//m);
    await refused(securedRedis.url.replace('rediss:', 'redis:'), /^REDIS_URL: .*TLS only.*rediss:\/\//m);
    await refused(securedRedis.url, /^REDIS_URL: .*certificate.*NODE_EXTRA_CA_CERTS/m, {});
  });

  test('whose form is that of Sentinels or of a Cluster, at a plain server', async () => {
    const host = redis.url.replace('redis://', '');
    await refused(`redis+sentinel://${host}/idempay`, /^REDIS_URL: .*not a Sentinel/m);
    await refused(`redis+cluster://${host}`, /^REDIS_URL: .*not a node of a Cluster/m);
  });

  test('whose form is plain, at a Sentinel; and with a master that the Sentinel does not know', async () => {
    const { port } = await opened(startSentinel(redis.port));
    await refused(`redis://127.0.0.1:${port}`, /^REDIS_URL: .*it is a Sentinel.*redis\+sentinel/m);
    await refused(`redis+sentinel://127.0.0.1:${port}/other`, /^REDIS_URL: .*no master named other/m);
    // The rest of the URL is about the master behind a Sentinel.
    await refused(`redis+sentinel://127.0.0.1:${port}/idempay/99`, /^REDIS_URL: .*DB index/m);
  });

  test('whose form is plain, at a node of a Cluster', async () => {
    const { nodes } = await opened(startCluster());
    await refused(`redis://127.0.0.1:${nodes[0]?.port}`, /^REDIS_URL: .*node of a Cluster.*redis\+cluster/m);
  });

  test('that names a replica', async () => {
    const replica = await opened(startRedis(['--replicaof', '127.0.0.1', String(redis.port)]));
    await refused(replica.url, /^REDIS_URL: .*it is a replica/m);
  });

  test('but a password that the server does not ask for is only warned of', async () => {
    const { logs } = await startPaying({ DATABASE_URL: database.url, REDIS_URL: withUser(redis.url, ':early') });
    expect(logs.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(/Redis asks for no password/));
  });
});

describe('a wrong DATABASE_URL ends the start', { timeout: 60_000 }, () => {
  const refused = (url: string, sentence: RegExp, more: Record<string, string> = {}) =>
    expectRefusal({ REDIS_URL: redis.url, DATABASE_URL: url, ...more }, sentence);

  test('with a wrong password, without one, with an unknown user, with an unknown database', async () => {
    const wrong = new URL(secured.userUrl);
    wrong.password = 'not-this-one';
    await refused(String(wrong), /^DATABASE_URL: .*password authentication failed.*password/m, trust);
    wrong.password = '';
    await refused(String(wrong), /^DATABASE_URL: .*password/m, trust);
    await refused(database.url.replace('//idempay@', '//nobody@'), /^DATABASE_URL: .*"nobody".*user/m);
    const nowhere = database.url.replace(/\/test_\w+/, '/nowhere');
    await refused(nowhere, /^DATABASE_URL: .*"nowhere".*Create the database/m);
  });

  test('with TLS at a plain server, without TLS for a user who needs it, with an untrusted certificate', async () => {
    await refused(`${database.url}?sslmode=verify-full`, /^DATABASE_URL: .*SSL.*sslmode/m);
    await refused(secured.userUrl.replace('verify-full', 'disable'), /^DATABASE_URL: .*sslmode=verify-full/m);
    await refused(secured.userUrl, /^DATABASE_URL: .*certificate.*NODE_EXTRA_CA_CERTS/m);
    const lost = `${database.url}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`;
    await refused(lost, /^DATABASE_URL: .*\/nowhere\/ca\.pem/m);
  });

  test('whose user may not create the schema, or may not use what is in it', async () => {
    const { url } = database;
    const role = `guest_${new URL(url).pathname.slice(1)}`;
    const guest = url.replace('//idempay@', `//${role}@`);
    await runSql(url, `CREATE ROLE ${role} LOGIN`);
    try {
      // As the first start does: no schema is there yet.
      await runSql(url, 'DROP SCHEMA IF EXISTS idempay CASCADE');
      await refused(guest, /^DATABASE_URL: .*permission denied.*schema idempay/m);
      await (await startService({ REDIS_URL: redis.url, DATABASE_URL: url })).stop();
      await refused(guest, /^DATABASE_URL: .*permission denied.*schema idempay/m);
      await runSql(url, `GRANT USAGE, CREATE ON SCHEMA idempay TO ${role}`);
      await runSql(url, `GRANT ALL ON idempay.migrations TO ${role}`);
      await runSql(url, `GRANT SELECT ON idempay.payments TO ${role}`);
      await refused(guest, /^DATABASE_URL: .*may not read and write .*payments/m);
    } finally {
      await runSql(url, `DROP OWNED BY ${role}`);
      await runSql(url, `DROP ROLE ${role}`);
    }
  });
});

describe('what is only away is waited for', { timeout: 60_000 }, () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  beforeEach(async () => {
    stores = await opened(openStoppableStores());
  });

  test('PostgreSQL: the start goes on when it comes, and says once that it waits', async () => {
    await stores.postgres.stopImmediately();
    const starting = stores.serve();
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
    const late = await opened(startRedis(['--databases', '1']));
    await late.kill();
    const { url, logs } = await stores.serve({ REDIS_URL: `${late.url}/15` });
    await late.start();
    await until('the refusal of the database to be logged', BACK_DEADLINE_MS, () =>
      logs.some((line) => JSON.stringify(line).includes('DB index')),
    );
    expect((await ask(`${url}/api/server-generated/generate-key`)).status).toBe(503);
    expect(await late.client.keys('*')).toEqual([]);
  });
});

describe('a password that changes while the service runs', { timeout: 60_000 }, () => {
  test('of Redis or PostgreSQL costs 503 and no process, and all is back with it', async () => {
    const { client } = redis;
    await client.call('ACL', 'SETUSER', 'idempay', 'on', '>secret', '~*', '&*', '+@all');
    const password = decodeURIComponent(new URL(secured.userUrl).password);
    const REDIS_URL = withUser(redis.url, 'idempay:secret');
    const { url } = await startPaying({ ...trust, DATABASE_URL: secured.userUrl, REDIS_URL });
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
});
