import dns from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { discardSimulatedPayments } from '#idempay/stores/postgres/payments/discard-simulated.js';
import { openTransferTarget } from '#idempay/stores/postgres/transfer-target.js';
import { untilFullService } from '../../testkit/client/full-service.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { findingsOfPostgres, rowOf } from '../../testkit/deployments/doctor.js';
import { NEXT, nextMigrations } from '../../testkit/protocol/next-migration.js';
import { startPgbouncer } from '../../testkit/servers/pgbouncer.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy, TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';

const DATABASE = 'idempay';
const NAME = 'database.test';
const DEADLINE_MS = 30_000;
/** In the start-up message of each connection. */
const START_OF_SESSION = 'client_encoding';

interface Servers {
  readonly stores: Awaited<ReturnType<typeof openStoppableStores>>;
  readonly standby: Awaited<ReturnType<typeof startStandby>>;
}

/** The address of the service, and what leads it to the new primary; nothing if the address does so by itself. */
interface Form {
  readonly url: string;
  readonly lead?: () => void;
}

const throughWire = ({ stores }: Servers) => stores.wires.environment.DATABASE_URL;

const FORMS: readonly [name: string, open: (servers: Servers) => Form | Promise<Form>][] = [
  [
    'several hosts in the address',
    ({ stores, standby }) => ({
      // The standby is named first: it is passed over from the start on.
      url: `postgres://idempay@127.0.0.1:${standby.port},127.0.0.1:${stores.postgres.port}/${DATABASE}?target_session_attrs=primary`,
    }),
  ],
  [
    'an address that moves',
    (servers) => ({
      url: throughWire(servers),
      lead: () => servers.stores.wires.postgres.leadTo(servers.standby.port),
    }),
  ],
  [
    'a pooler in session mode whose server moves',
    async (servers) => {
      const pgbouncer = await startPgbouncer(throughWire(servers));
      onTestFinished(() => pgbouncer.close());
      return { url: pgbouncer.url, lead: () => servers.stores.wires.postgres.leadTo(servers.standby.port) };
    },
  ],
  [
    'a name in DNS',
    async ({ stores, standby }) => {
      const { port } = stores.postgres;
      // The same port at another address, as a name in DNS has no port.
      const listener = createServer({ noDelay: true }).listen(port, '127.0.0.2');
      await once(listener, 'listening');
      const other = new TcpProxy(listener, standby.port);
      let address = '127.0.0.1';
      const { lookup } = dns;
      const lookUps = vi.spyOn(dns, 'lookup').mockImplementation(((name: string, options: dns.LookupOptions, done) => {
        if (name !== NAME) return lookup(name, options, done);
        return options.all ? done(null, [{ address, family: 4 }]) : done(null, address, 4);
      }) as (...parameters: [string, dns.LookupOptions, (...found: unknown[]) => void]) => void as typeof dns.lookup);
      onTestFinished(async () => {
        lookUps.mockRestore();
        await other.close();
      });
      return {
        url: `postgres://idempay@${NAME}:${port}/${DATABASE}`,
        lead() {
          address = '127.0.0.2';
        },
      };
    },
  ],
];

/** docs/operations/failover.md tells of each form. */
test.each(FORMS)('the new primary is found after a failover by %s', async (_name, open) => {
  const { stores, standby } = await openServers();
  const { url: databaseUrl, lead } = await open({ stores, standby });
  const { url, stop } = await stores.serve({ DATABASE_URL: databaseUrl });
  const { key, transactionId } = await givenPaid(url);
  await expect.poll(() => standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${key}'`)).toBe(true);

  await stores.postgres.stopImmediately();
  await standby.promote();
  lead?.();
  await untilFullService(url);
  expectReplay(await pay(url, key), transactionId);
  const row = await standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${key}' AND state = 'COMPLETED'`);
  expect(row).toBe(true);
  const findings = await findingsOfPostgres(databaseUrl);
  expect(rowOf(findings, 'PostgreSQL schema')).toMatchObject({ verdict: 'ok' });
  await stop();
});

async function openServers(): Promise<Servers> {
  const stores = await openStoppableStores();
  const standby = await startStandby(stores.postgres);
  onTestFinished(async () => {
    await stores.close();
    await standby.close();
  });
  return { stores, standby };
}

/**
 * Bug: a process that met the standby before it was promoted never asked it again, although the address has several hosts.
 * Cause: without connections every request was refused, and the look of each second asked the host whose turn it was, without an end.
 * Fix: a look that fails, or that meets a standby, leaves the host as any other connection does.
 */
test('a standby of several hosts that is promoted after it was met is found', async () => {
  const { stores, standby } = await openServers();
  const wire = await startTcpProxy(standby.port);
  onTestFinished(() => wire.close());
  const hosts = `127.0.0.1:${wire.port},127.0.0.1:${stores.postgres.port}`;
  const { url, stop } = await stores.serve({ DATABASE_URL: `postgres://idempay@${hosts}/${DATABASE}` });
  await givenPaid(url);

  const met = wire.count(START_OF_SESSION);
  await stores.postgres.stopImmediately();
  // Twice: the first time another connection may have been on its way to either host.
  await until('two meetings with the standby', DEADLINE_MS, () => met() >= 2);
  await standby.promote();
  await untilFullService(url);
  await stop();
});

/** The start asks twice a second, each host in turn: this many meetings take longer than its patience with the standby of one host. */
const MEETINGS = 8;

test('a start with several hosts waits until a standby is the primary', async () => {
  const { stores, standby } = await openServers();
  await (await stores.serve()).stop();
  await expect.poll(() => standby.has(DATABASE, 'SELECT FROM idempay.deployment')).toBe(true);
  await stores.postgres.stopImmediately();
  const wire = await startTcpProxy(standby.port);
  onTestFinished(() => wire.close());
  const met = wire.count(START_OF_SESSION);
  const hosts = `127.0.0.1:${stores.postgres.port},127.0.0.1:${wire.port}`;
  const starting = stores.serve({ DATABASE_URL: `postgres://idempay@${hosts}/${DATABASE}` });
  await Promise.race([starting, until('meetings with the standby', DEADLINE_MS, () => met() >= MEETINGS)]);
  await standby.promote();
  const { url, stop } = await starting;
  await untilFullService(url);
  await stop();
});

/**
 * Bug: a process that lost its way to the new primary for a moment took the old one, which nobody had fenced, for a restored database. It
 * claimed and settled payments there, and they were lost when it came to the new primary again.
 * Fix: the deployment knows the timeline of the server that it was on last, and an earlier one is refused if the address has several hosts.
 */
test('an old primary that was not fenced is refused once the new one was seen, also by a start', async () => {
  const { stores, standby } = await openServers();
  const { old, promoted } = { old: stores.wires.postgres, promoted: await startTcpProxy(standby.port) };
  onTestFinished(() => promoted.close());
  const DATABASE_URL = `postgres://idempay@127.0.0.1:${old.port},127.0.0.1:${promoted.port}/${DATABASE}`;
  const { url, logs } = await stores.serve({ DATABASE_URL });
  const { key, transactionId } = await givenPaid(url);
  await expect.poll(() => standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${key}'`)).toBe(true);
  await standby.promote();
  old.cutOff();
  await untilFullService(url);
  const before = await stores.sql('SELECT key, state FROM idempay.payments ORDER BY key');
  const { id: generation } = await deploymentAt(stores.databaseUrl);

  old.heal();
  promoted.cutOff();
  const refusals = () => logs.filter((line) => JSON.stringify(line).includes('replaced by a failover')).length;
  await until('a refusal of the old primary', DEADLINE_MS, () => refusals() > 0);
  expect((await pay(url, await generateKey(url))).status).toBe(503);
  promoted.heal();
  await untilFullService(url);
  expectReplay(await pay(url, key), transactionId);

  // It meets the old primary first.
  const later = await stores.serve({ DATABASE_URL });
  const paid = await givenPaid(later.url);
  await untilFullService(later.url, url);
  expect(await standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${paid.key}'`)).toBe(true);
  expect(await stores.sql('SELECT key, state FROM idempay.payments ORDER BY key')).toEqual(before);
  expect(await deploymentAt(stores.databaseUrl)).toEqual({ id: generation });

  // Bug: a start migrated the old primary alone, found the new one without the migration, and ended. So did the next start.
  const next = await stores.serve({ DATABASE_URL }, await nextMigrations({}, 'Side by side'));
  const paidByNext = await givenPaid(next.url);
  await untilFullService(next.url);
  expect(await standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${paidByNext.key}'`)).toBe(true);
  expect(await standby.has(DATABASE, `SELECT FROM idempay.migrations WHERE name = '${NEXT}'`)).toBe(true);
});

/** A restore may lead back to an earlier timeline, and then the operator names its server alone. */
test('an earlier timeline is taken if its server is the only one in the address, and then also among several', async () => {
  const { stores, standby } = await openServers();
  const [restored, replaced] = [`127.0.0.1:${stores.postgres.port}`, `127.0.0.1:${standby.port}`];
  const at = (hosts: string) => ({ DATABASE_URL: `postgres://idempay@${hosts}/${DATABASE}` });
  const first = await stores.serve(at(restored));
  const { key, transactionId } = await givenPaid(first.url);
  await first.stop();
  await expect.poll(() => standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${key}'`)).toBe(true);
  await standby.promote();
  const second = await stores.serve(at(replaced));
  await givenPaid(second.url);
  await second.stop();
  await standby.stopImmediately();

  for (const hosts of [restored, `${replaced},${restored}`]) {
    const { url, stop } = await stores.serve(at(hosts));
    await untilFullService(url);
    expectReplay(await pay(url, key), transactionId);
    await stop();
  }
});

/**
 * Bug: a process that had seen the later timeline refused the restored server until it was restarted, if it could not read in Redis that
 * another start had adopted the server.
 * Fix: an adopted server has a higher generation than the process knows, so its timeline does not matter.
 */
test('a process with several hosts takes a server that was adopted on an earlier timeline, also if Redis has lost all', async () => {
  const { stores, standby } = await openServers();
  const { postgres: wire } = stores.wires;
  const [restored, replaced] = [`127.0.0.1:${wire.port}`, `127.0.0.1:${standby.port}`];
  const at = (hosts: string) => ({ DATABASE_URL: `postgres://idempay@${hosts}/${DATABASE}` });
  const { url } = await stores.serve(at(`${replaced},${restored}`));
  const { key, transactionId } = await givenPaid(url);
  await expect.poll(() => standby.has(DATABASE, `SELECT FROM idempay.payments WHERE key = '${key}'`)).toBe(true);
  await standby.promote();
  wire.cutOff();
  await untilFullService(url);
  await standby.stopImmediately();

  const adopting = await stores.serve();
  await untilFullService(adopting.url);
  await adopting.stop();
  await stores.redis.client.flushall();
  wire.heal();
  await untilFullService(url);
  expectReplay(await pay(url, key), transactionId);
});

const deploymentAt = async (databaseUrl: string) =>
  (await runSql(databaseUrl, 'SELECT incarnation AS id FROM idempay.deployment'))[0] as { id: string };

/** Bug: a command took the first host that was a primary, also one that a failover had replaced and that came back. */
test('a command refuses two primaries, and takes two names of one server', async () => {
  const { stores, standby } = await openServers();
  const { url, stop } = await stores.serve();
  const { key } = await givenPaid(url);
  await stop();
  const ofKey = `SELECT FROM idempay.payments WHERE key = '${key}'`;
  await expect.poll(() => standby.has(DATABASE, ofKey)).toBe(true);
  await standby.promote();
  const [old, promoted] = [`127.0.0.1:${stores.postgres.port}`, `127.0.0.1:${standby.port}`];
  const discard = (hosts: string) => discardSimulatedPayments(`postgres://idempay@${hosts}/${DATABASE}`);
  await expect(discard(`${old},${promoted}`)).rejects.toThrow(`${old} and ${promoted} are both primaries`);
  // Bug: a transfer, and its way back, took the old primary if the new one did not answer.
  const silent = openTransferTarget(`postgres://idempay@${old},127.0.0.1:1/${DATABASE}`);
  await expect(silent).rejects.toThrow(
    /127\.0\.0\.1:1 cannot be asked \(.*ECONNREFUSED.*\), and may be the primary by now/,
  );
  // Bug: a wrong database or password was reported as a server that does not answer.
  const wrong = openTransferTarget(`postgres://idempay@${old},${promoted}/absent`);
  await expect(wrong).rejects.toThrow(`${old} cannot be asked (database "absent" does not exist)`);
  expect(await stores.sql(ofKey)).toHaveLength(1);
  expect(await standby.has(DATABASE, ofKey)).toBe(true);
  expect(await discard(`${promoted},localhost:${standby.port}`)).toBe(true);
  expect(await standby.has(DATABASE, ofKey)).toBe(false);
});
