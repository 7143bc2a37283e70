import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { untilFullService } from '../../testkit/client/full-service.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { manageStores } from '../../testkit/deployments/deployments.js';
import type { LogLine } from '../../testkit/processes/service.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 30_000;
const USER = 'service';
const [FORMER, RENEWED] = ['former', 'renewed'];

/** The servers of a topology; `giveWay` makes another one of them a master. */
interface Servers {
  readonly url: string;
  readonly nodes: readonly RedisServer[];
  giveWay(): Promise<void>;
  whole(): Promise<unknown>;
  close(): Promise<void>;
}

const TOPOLOGIES: readonly [name: string, start: () => Promise<Servers>][] = [
  [
    'Sentinels',
    async () => {
      const trio = await startSentinelTrio();
      return { ...trio, nodes: trio.servers };
    },
  ],
  ['a Cluster', startCluster],
];

/** Rights are not replicated, so each server is told, as an operator does. */
const setPassword = ({ nodes }: Servers, password: string) =>
  Promise.all(
    nodes.map(({ client }) =>
      client.call('ACL', 'SETUSER', USER, 'on', 'resetpass', `>${password}`, '~*', '&*', '+@all'),
    ),
  );

const untilTaken = (logs: readonly LogLine[], file: string) =>
  until('the new content', DEADLINE_MS, () =>
    logs.some(({ msg }) => msg?.startsWith(`${file}: `) && msg.includes('new connections use the new content')),
  );

const closeConnections = ({ nodes }: Servers) =>
  Promise.all(nodes.map(({ client }) => client.call('CLIENT', 'KILL', 'USER', USER)));

/**
 * Bug: after connections to a Cluster were closed, new ones used the password of the start, and nothing could be paid until a restart.
 * Cause: a Cluster makes its nodes with options that it copied when it was made. Fix: each node gets the present access before it connects.
 */
test.each(TOPOLOGIES)(
  'a password that changes while the service runs is used with %s, also after a failover',
  async (_name, start) => {
    const servers = await start();
    const [database, folder] = [await createSharedDatabase(), await mkdtemp(join(tmpdir(), 'idempay-renewed-'))];
    onTestFinished(async () => {
      await servers.close();
      await rm(folder, { recursive: true });
    });
    await setPassword(servers, FORMER);
    const file = join(folder, 'redis');
    const write = (password: string) => writeFile(file, `${servers.url.replace('://', `://${USER}:${password}@`)}\n`);
    await write(FORMER);
    const stores = manageStores({ REDIS_URL_FILE: file, DATABASE_URL: database.url }, () => database.drop());
    onTestFinished(() => stores.close());
    const { url, logs } = await stores.serve();
    await untilFullService(url);
    const { key, transactionId } = await givenPaid(url);

    await setPassword(servers, RENEWED);
    await write(RENEWED);
    await untilTaken(logs, 'REDIS_URL_FILE');
    await closeConnections(servers);
    await untilFullService(url);
    expectReplay(await pay(url, key), transactionId);

    // A server that the service was not connected to becomes a master.
    await servers.giveWay();
    await untilFullService(url);
    expectReplay(await pay(url, key), transactionId);
    expect((await pay(url, await generateKey(url))).status).toBe(200);
    await servers.whole();
  },
);

/** The same bug: new connections refused certificates of the new authority. */
test('authorities that change while the service runs are used with a Cluster', async () => {
  const [former, renewed] = await Promise.all([makeCertificates(), makeCertificates()]);
  // Nodes trust one another throughout.
  const [formerAuthority, renewedAuthority] = await Promise.all(
    [former, renewed].map(({ authority }) => readFile(authority, 'utf8')),
  );
  await writeFile(former.authority, `${formerAuthority}${renewedAuthority}`);
  const cluster = await startCluster({ masters: 3, hasReplicas: false, nodeTimeoutMs: 1_500 }, former);
  const [database, folder] = [await createSharedDatabase(), await mkdtemp(join(tmpdir(), 'idempay-renewed-'))];
  onTestFinished(async () => {
    await cluster.close();
    await Promise.all([former.remove(), renewed.remove(), rm(folder, { recursive: true })]);
  });
  const file = join(folder, 'ca');
  await writeFile(file, `${formerAuthority}`);
  const stores = manageStores({ REDIS_URL: cluster.url, REDIS_CA_FILE: file, DATABASE_URL: database.url }, () =>
    database.drop(),
  );
  onTestFinished(() => stores.close());
  const { url, logs } = await stores.serve();
  await untilFullService(url);
  const { key, transactionId } = await givenPaid(url);

  for (const { client } of cluster.nodes) {
    await client.call('CONFIG', 'SET', 'tls-cert-file', renewed.certificate, 'tls-key-file', renewed.key);
  }
  await writeFile(file, `${renewedAuthority}`);
  await untilTaken(logs, 'REDIS_CA_FILE');
  await Promise.all(
    cluster.nodes.map(({ client }) => client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
  );
  await untilFullService(url);
  expectReplay(await pay(url, key), transactionId);
  expect((await pay(url, await generateKey(url))).status).toBe(200);
});
