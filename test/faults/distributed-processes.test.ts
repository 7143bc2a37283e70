import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { untilOutcome } from '../../testkit/client/full-service.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { Load } from '../../testkit/client/load.js';
import { expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { givenTransaction } from '../../testkit/client/transactions.js';
import { executionOf, openStoppableStores, openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { History } from '../../testkit/history/history.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const PROCESSES = ['service 1', 'service 2', 'service 3'];
const CLIENTS = { payments: 32, transactions: 32 };
const KEYS = 3_000;
const WRITES = 1_000;
const LEASE_SECONDS = 10;
const LOAD_DEADLINE_MS = 180_000;
const SERVICES = 5;
/** As in `migrate.ts`. */
const MIGRATION_LOCK = 4_242_017_001;
const ASKING_FOR_A_TURN =
  "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_try_advisory_lock%'";
const DEADLINE_MS = 20_000;
/** A start waits two seconds before it says that it waits. */
const NOTICE_AFTER_MS = 5_000;

/** All rows that a start or its migrations may touch; a schema changes by a migration only. */
const ROWS = ['migrations', 'payments', 'transactions', 'transaction_list']
  .map((table) => `SELECT ${table}::text FROM idempay.${table}`)
  .join(' UNION ALL ')
  .concat(' ORDER BY 1');

test(`three processes answer as one: ${KEYS} keys have one id each, nothing is stale, and nothing is refused`, async () => {
  const stores = await openTestStores();
  const settings = { LOCK_TTL_SECONDS: `${LEASE_SECONDS}` };
  const history = new History(
    await Promise.all(PROCESSES.map(async (name) => ({ name, url: (await stores.start(settings)).url }))),
  );
  const load = new Load(history, seededRandom(seedFrom('PROCESSES_SEED')));
  await load.during(CLIENTS, () =>
    until('enough keys and writes', LOAD_DEADLINE_MS, () => history.keys.length >= KEYS && history.writes >= WRITES),
  );
  await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_SECONDS * 1_000 });
  history.close();

  const rows = await stores.sql('SELECT count(*)::int, max(epoch)::int AS epochs FROM idempay.payments');
  expect(rows).toEqual([{ count: history.keys.length, epochs: 1 }]);
  // Else the reads never met the cache, and the test has shown nothing.
  expect(history.cacheHits).toBeGreaterThan(WRITES);
});

/** The reply to that step waits for it in its socket, and another process pays meanwhile. Every send would charge again. */
test.each([
  ['its lock', 'redis', (key: string) => `{${key}}:lock`],
  ['its claim', 'postgres', () => executionOf('claim')],
  ['its charge, and Redis forgets everything,', 'processor', () => 'POST /charges '],
] as const)(
  'a process that is stopped after %s answers as the one that took over, and one charge was sent',
  async (_step, server, textOf) => {
    const stores = await openTestStores();
    const processor = await startReferenceProcessor({ behaviour: { deduplicate: false } });
    const wire = await startTcpProxy(processor.port);
    for (const each of [processor, wire]) onTestFinished(() => each.close());
    const timing = { LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '1800' };
    const settings = { ...timing, PROCESSOR_URL: wire.through(processor.url) };
    const other = await stores.serve(settings);
    const stopped = await stores.start({ ...settings, ...stores.wires.environment });
    const key = await generateKey(other.url);
    const reply = { ...stores.wires, processor: wire }[server].hold(textOf(key), 'reply');
    const paying = pay(stopped.url, key);
    await reply.reached;
    stopped.signal('SIGSTOP');
    reply.release();
    if (server === 'processor') await stores.redis.client.flushall();
    const id = await untilOutcome(other.url, key);
    stopped.signal('SIGCONT');
    expectReplay(await paying, id);
    expect(await processor.chargesOf(key)).toMatchObject([{ transactionId: id }]);
  },
);

test(`${SERVICES} services that start at once on an empty database make the schema once, and all of them serve`, async () => {
  const stores = await openTestStores();
  const services = await Promise.all(Array.from({ length: SERVICES }, () => stores.serve()));
  for (const { url } of services) await givenPaid(url);
  expect(await stores.sql('SELECT only_row FROM idempay.transaction_list')).toEqual([{ only_row: true }]);
});

test('one service at a time migrates: another start waits for its turn, and says so', async () => {
  const stores = await openTestStores();
  const migrating = new pg.Client({ connectionString: stores.databaseUrl });
  await migrating.connect();
  await migrating.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
  const starting = stores.serve();
  await until('a start to ask for its turn', DEADLINE_MS, async () => {
    return (await stores.sql(ASKING_FOR_A_TURN)).length > 0;
  });
  await pause(NOTICE_AFTER_MS);
  expect(await stores.sql("SELECT FROM pg_namespace WHERE nspname = 'idempay'")).toEqual([]);
  await migrating.end();
  const { url, logs } = await starting;
  const notice = 'Another process migrates the database; the start waits for its turn.';
  expect(logs.map(({ msg }) => msg)).toContain(notice);
  await givenPaid(url);
});

test('a second start leaves the schema and the rows alone; one of another version is refused with a sentence', async () => {
  const stores = await openTestStores();
  const first = await stores.serve();
  await givenPaid(first.url);
  await givenTransaction(first.url);
  await first.stop();
  const before = await stores.sql(ROWS);
  for (const service of await Promise.all([stores.serve(), stores.serve()])) await service.stop();
  expect(await stores.sql(ROWS)).toEqual(before);

  await stores.sql("INSERT INTO idempay.migrations (name, mode) VALUES ('9999_from_the_future.sql', 'full stop')");
  await expect(stores.serve()).rejects.toMatchObject(
    cannotOpen('made by another version of Idempay (migration 9999_from_the_future.sql)'),
  );
});

test('a standby is refused at start with a sentence, and used as soon as it is the primary', async () => {
  const stores = await openStoppableStores();
  const standby = await startStandby(stores.postgres);
  onTestFinished(async () => {
    await stores.close();
    await standby.close();
  });
  // It follows: what the primary acknowledged arrives there.
  const primary = await stores.serve();
  const { transactionId } = await givenTransaction(primary.url);
  await until('the standby to have the row', DEADLINE_MS, () =>
    standby.has('idempay', `SELECT 1 FROM idempay.transactions WHERE id = ${transactionId}`),
  );
  const environment = { DATABASE_URL: standby.url('idempay') };
  const sentence = 'this PostgreSQL server is a standby; connect to the primary';
  await expect(stores.serve(environment)).rejects.toMatchObject(cannotOpen(sentence));

  await primary.stop();
  await standby.promote();
  const { url } = await stores.serve(environment);
  await givenPaid(url);
  expect((await givenTransaction(url)).transactionId).toBeGreaterThan(transactionId);
});

function cannotOpen(sentence: string) {
  return { name: 'CannotOpen', message: expect.stringContaining(sentence) };
}
