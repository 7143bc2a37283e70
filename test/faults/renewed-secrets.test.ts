import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { untilFullService } from '../../testkit/client/full-service.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, givenPaid, untilPaid } from '../../testkit/client/payment-answers.js';
import { describeDeployments, manageStores } from '../../testkit/deployments/deployments.js';
import type { LogLine } from '../../testkit/processes/service.js';
import { makeCertificates, PASSWORD } from '../../testkit/servers/certificates.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { startSecuredPostgres } from '../../testkit/servers/secured-postgres.js';
import { startSecuredRedis } from '../../testkit/servers/secured-redis.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const NEW_PASSWORD = 'n3w/p@ss';

/** A mounted secret: its files are links to a folder behind a link, which is swapped as a whole. */
async function mountSecret() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-mounted-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  let versions = 0;
  async function write(values: Record<string, string>): Promise<void> {
    versions += 1;
    const version = join(folder, `..version-${versions}`);
    await mkdir(version);
    for (const [name, value] of Object.entries(values)) await writeFile(join(version, name), `${value}\n`);
    await symlink(version, join(folder, '..new'));
    await rename(join(folder, '..new'), join(folder, '..data'));
    for (const name of Object.keys(values)) {
      await symlink(join('..data', name), join(folder, name)).catch(() => {});
    }
  }
  return { write, path: (name: string) => join(folder, name) };
}

const linesOf = (logs: readonly LogLine[], start: string) =>
  logs.filter(({ msg }) => msg?.startsWith(`${start}: `)).map(({ msg }) => msg);

const untilLogged = (logs: readonly LogLine[], start: string, count: number) =>
  until(`${count} lines about ${start}`, DEADLINE_MS, () => linesOf(logs, start).length >= count);

test('passwords of Redis and PostgreSQL change while the service runs, and no other part of their addresses does', async () => {
  const postgres = await startSecuredPostgres(['fsync=off']);
  const redis = await startSecuredRedis(postgres.authority);
  onTestFinished(async () => {
    await Promise.all([redis.close(), postgres.close()]);
  });
  const secret = await mountSecret();
  const encoded = encodeURIComponent(NEW_PASSWORD);
  const renewed = (url: string) => url.replace(encodeURIComponent(PASSWORD), encoded);
  const authority = await readFile(postgres.authority, 'utf8');
  await secret.write({ redis: redis.url, database: postgres.userUrl, ca: authority });
  const stores = manageStores(
    {
      REDIS_URL_FILE: secret.path('redis'),
      DATABASE_URL_FILE: secret.path('database'),
      REDIS_CA_FILE: secret.path('ca'),
      DATABASE_CA_FILE: secret.path('ca'),
    },
    async () => {},
  );
  onTestFinished(() => stores.close());
  const { url, logs } = await stores.serve();
  expectFirst(await pay(url, await generateKey(url)));

  await runSql(postgres.adminUrl, `ALTER ROLE service PASSWORD '${NEW_PASSWORD}'`);
  await redis.changePassword(NEW_PASSWORD);
  await secret.write({ redis: renewed(redis.url), database: renewed(postgres.userUrl), ca: authority });
  await Promise.all([untilLogged(logs, 'REDIS_URL_FILE', 1), untilLogged(logs, 'DATABASE_URL_FILE', 1)]);
  expect(linesOf(logs, 'REDIS_URL_FILE')[0]).toMatch(/new connections use the new content/);
  // New connections to both.
  await redis.closeConnections();
  await runSql(postgres.adminUrl, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'");
  await untilFullService(url);

  // Another user is another account, and another host another store.
  const otherUser = renewed(redis.url).replace('//idempay:', '//other:');
  const otherHost = renewed(postgres.userUrl).replace('127.0.0.1', 'localhost');
  await secret.write({ redis: otherUser, database: otherHost, ca: authority });
  await Promise.all([untilLogged(logs, 'REDIS_URL_FILE', 2), untilLogged(logs, 'DATABASE_URL_FILE', 2)]);
  await redis.closeConnections();
  await untilFullService(url);
  for (const name of ['REDIS_URL_FILE', 'DATABASE_URL_FILE']) {
    expect(linesOf(logs, name).slice(1), 'once for each change').toEqual([
      expect.stringMatching(/only the password .* may change .* previous content stays in use/),
    ]);
  }
  // A text that is no address at all, such as one that is half written.
  await secret.write({ redis: '#', database: '#', ca: authority });
  await Promise.all([untilLogged(logs, 'REDIS_URL_FILE', 3), untilLogged(logs, 'DATABASE_URL_FILE', 3)]);
  await untilFullService(url);
  for (const name of ['REDIS_URL_FILE', 'DATABASE_URL_FILE']) {
    expect(linesOf(logs, name)[2]).toMatch(/previous content stays in use/);
  }
  // The right address with a password that cannot be decoded: the driver would throw for each new connection.
  await secret.write({
    redis: '#',
    database: postgres.userUrl.replace(encodeURIComponent(PASSWORD), 'p%ffq'),
    ca: authority,
  });
  await untilLogged(logs, 'DATABASE_URL_FILE', 4);
  expect(linesOf(logs, 'DATABASE_URL_FILE')[3]).toMatch(/previous content stays in use/);
  await runSql(postgres.adminUrl, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'");
  await untilFullService(url);
  const text = JSON.stringify(logs);
  for (const password of [PASSWORD, NEW_PASSWORD, encoded]) expect(text).not.toContain(password);
});

/**
 * Bug: new connections to PostgreSQL used a file of authorities whose content was refused, and a missing one threw in the pool.
 * Cause: the driver read the file that the URL named for each connection.
 * Fix: the service gives each connection the text that it accepted last.
 */
test('authorities of PostgreSQL change while the service runs, and only a file that can be read takes their place', async () => {
  const [postgres, redis, others] = await Promise.all([
    startSecuredPostgres(['fsync=off']),
    startRedis(),
    makeCertificates(),
  ]);
  onTestFinished(async () => {
    await Promise.all([redis.close(), postgres.close(), others.remove()]);
  });
  const file = 'DATABASE_CA_FILE';
  const secret = await mountSecret();
  const ca = await readFile(postgres.authority, 'utf8');
  await secret.write({ ca });
  const settings = { REDIS_URL: redis.url, DATABASE_URL: postgres.userUrl, [file]: secret.path('ca') };
  const stores = manageStores(settings, async () => {});
  onTestFinished(() => stores.close());
  const { url, logs } = await stores.serve();
  const closeConnections = () =>
    runSql(postgres.adminUrl, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'");

  const unusable: Record<string, string>[] = [{}, { ca: 'no certificate' }];
  for (const [index, values] of unusable.entries()) {
    await secret.write(values);
    await untilLogged(logs, file, index + 1);
    expect(linesOf(logs, file)[index]).toMatch(/previous content stays in use/);
    await closeConnections();
    await untilFullService(url);
  }

  await secret.write({ ca: await readFile(others.authority, 'utf8') });
  await untilLogged(logs, file, 3);
  await closeConnections();
  await until('a refused certificate', DEADLINE_MS, () => logs.some((line) => /certificate/.test(String(line.reason))));
  await secret.write({ ca });
  await untilFullService(url);
});

describeDeployments('headers for traces in a file', (deployment) => {
  test('count at the start only, and the log says so', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const secret = await mountSecret();
    await secret.write({ headers: `authorization=${PASSWORD}` });
    const file = 'OTEL_EXPORTER_OTLP_HEADERS_FILE';
    const { logs } = await stores.serve({ [file]: secret.path('headers') });
    await secret.write({ headers: 'authorization=another' });
    await untilLogged(logs, file, 1);
    expect(linesOf(logs, file)).toEqual([expect.stringMatching(/counts at the start only.* previous content stays/)]);
  });
});

describeDeployments('the address of a processor in a file', (deployment) => {
  test('may have another password while the service runs, and its certificate another authority', async () => {
    const [certificates, others] = await Promise.all([makeCertificates(), makeCertificates()]);
    const server = createServer(
      { cert: await readFile(certificates.certificate), key: await readFile(certificates.key) },
      (request, response) => {
        const isKnown = request.headers.authorization === basic;
        request.resume().on('end', () => {
          response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' });
          response.end(isKnown ? '{"status":"succeeded"}' : '{}');
        });
      },
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const stores = await deployment.open();
    onTestFinished(async () => {
      await stores.close();
      server.closeAllConnections();
      server.close();
      await Promise.all([certificates.remove(), others.remove()]);
    });
    let basic = basicOf('shop', PASSWORD);
    const { port } = server.address() as AddressInfo;
    const urlWith = (password: string, user = 'shop') =>
      `https://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}`;
    const secret = await mountSecret();
    const authority = await readFile(certificates.authority, 'utf8');
    await secret.write({ url: urlWith(PASSWORD), ca: authority });
    const { url, logs } = await stores.serve({
      PROCESSOR_URL_FILE: secret.path('url'),
      PROCESSOR_CA_FILE: secret.path('ca'),
      PROCESSOR_ACCOUNT: 'shop',
      LOCK_TTL_SECONDS: '11',
    });
    await givenPaid(url);

    basic = basicOf('shop', NEW_PASSWORD);
    await secret.write({ url: urlWith(NEW_PASSWORD), ca: authority });
    await untilLogged(logs, 'PROCESSOR_URL_FILE', 1);
    await givenPaid(url);

    await secret.write({ url: urlWith(NEW_PASSWORD, 'other'), ca: authority });
    await untilLogged(logs, 'PROCESSOR_URL_FILE', 2);
    expect(linesOf(logs, 'PROCESSOR_URL_FILE')[1]).toMatch(/only the password .* may change/);
    await givenPaid(url);

    // The server gets a certificate of another authority, as at a renewal.
    server.setSecureContext({ cert: await readFile(others.certificate), key: await readFile(others.key) });
    await secret.write({ url: urlWith(NEW_PASSWORD), ca: await readFile(others.authority, 'utf8') });
    await untilLogged(logs, 'PROCESSOR_CA_FILE', 1);
    server.closeAllConnections();
    await untilPaid(url, await generateKey(url));
    expect(JSON.stringify(logs)).not.toContain(encodeURIComponent(NEW_PASSWORD));
  });
});

function basicOf(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}
