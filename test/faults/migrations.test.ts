import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readMigrations } from '#idempay/stores/shared/migrations.js';
import { type Answer, ask, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { deleteTransaction, keyed, listTransactions, postTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { type DistributedStores, openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { ROOT } from '../../testkit/programs.js';
import { NEXT, nextMigrations } from '../../testkit/protocol/next-migration.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '25.00', currency: 'EUR' };
const DEADLINE_MS = 60_000;
const MIGRATE = join(ROOT, 'testkit', 'processes', 'migrate.mjs');

const order = (url: string, reference: string, more = {}) =>
  sendJson(`${url}/api/payment?reference=${reference}`, 'POST', { ...MONEY, ...more }, { Prefer: 'respond-async' });
const refund = (url: string, name: string) =>
  sendJson(`${url}/api/refund?reference=paid&refund=${name}`, 'POST', { amount: '5.00', currency: 'EUR' });
const untilPaid = (url: string, reference: string): Promise<Answer> =>
  until(`${reference} to be paid`, DEADLINE_MS, async () => {
    const answer = await order(url, reference);
    return answer.status === 200 && answer;
  });

async function startProcessor(behaviour = {}) {
  const processor = await serveReferenceProcessor({ behaviour });
  onTestFinished(() => processor.close());
  return { processor, real: { PROCESSOR_URL: processor.url } };
}

async function openStores(deployment: { open(): Promise<Stores> }): Promise<Stores> {
  const stores = await deployment.open();
  onTestFinished(stores.close);
  return stores;
}

describeDeployments('a store of the version before', (deployment) => {
  test('is brought forward at the start, with payments in every state, and nothing is charged again', async () => {
    const stores = await openStores(deployment);
    const { processor, real } = await startProcessor();
    const before = await stores.serve(real);
    const paid = await order(before.url, 'paid');
    const given = await refund(before.url, 'part-1');
    expect([paid.status, given.status]).toEqual([200, 200]);
    await processor.behave({ declineRate: 1 });
    expect((await order(before.url, 'declined')).status).toBe(402);
    await processor.behave({ declineRate: 0, pendingRate: 1 });
    const pending = await order(before.url, 'pending', { returnUrl: 'https://shop.example/paid' });
    expect(pending.status).toBe(202);
    await processor.behave({ pendingRate: 0, lostReplyRate: 1 });
    expect((await order(before.url, 'unclear')).status).toBe(504);
    await ask(`${before.url}/api/payment-cancellation?reference=closed`, { method: 'POST' });
    const unpaid = await ask(`${before.url}/api/server-generated/generate-key?reference=unpaid`);
    const created = await postTransaction(before.url, undefined, keyed('create-1'));
    const removed = await postTransaction(before.url);
    await deleteTransaction(before.url, removed.json<{ transactionId: number }>().transactionId);
    const list = await listTransactions(before.url);
    await before.stop();
    await processor.behave({ lostReplyRate: 0 });

    const next = await nextMigrations(stores.environment);
    const { url, stop } = await stores.serve(real, next);
    expect(transactionIdOf(await order(url, 'paid'))).toBe(transactionIdOf(paid));
    expect(transactionIdOf(await refund(url, 'part-1'))).toBe(transactionIdOf(given));
    expect((await refund(url, 'part-2')).status).toBe(200);
    expect((await order(url, 'declined')).status).toBe(402);
    expect((await order(url, 'closed')).status).toBe(410);
    expect((await order(url, 'pending')).status).toBe(202);
    await untilPaid(url, 'unclear');
    expect((await ask(`${url}/api/server-generated/generate-key?reference=unpaid`)).text).toBe(unpaid.text);
    expect((await order(url, 'unpaid')).status).toBe(200);
    expect((await postTransaction(url, undefined, keyed('create-1'))).text).toBe(created.text);
    const listed = await listTransactions(url);
    expect([listed.headers.etag, listed.text]).toEqual([list.headers.etag, list.text]);
    const succeeded = (await processor.charges()).filter(({ status }) => status === 'succeeded');
    expect(succeeded).toHaveLength(3);
    expect(new Set(succeeded.map(({ reference }) => reference)).size).toBe(3);
    expect(await processor.refunds()).toHaveLength(2);
    await stop();

    // A second start has nothing to apply, and the version before does not start any more.
    await (await stores.serve(real, next)).stop();
    await expect(stores.serve(real)).rejects.toThrow('made by another version of Idempay');
  });

  /** SQLite, as PostgreSQL, takes all of a file back; the number of the file moves in the same commit. */
  test('keeps its schema if a start dies in the middle of a file, and the next start applies all of it', async () => {
    const stores = await openStores(deployment);
    const { DATA_DIR, DATABASE_URL } = stores.environment;
    const before = await stores.serve();
    const paid = await order(before.url, 'paid');
    await before.stop();
    const endless =
      DATA_DIR === undefined
        ? 'SELECT pg_sleep(86400)'
        : `CREATE TABLE filled AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`;
    const folder = fileURLToPath(await nextMigrations(stores.environment, 'Full stop', endless));
    const store = DATA_DIR === undefined ? (DATABASE_URL as string) : join(DATA_DIR, 'idempay.sqlite');
    const { child, ended } = spawnProgram(MIGRATE, {}, [], [store, folder]);
    await until('the middle of the file', DEADLINE_MS, () => isMigrating(store));
    child.kill('SIGKILL');
    await ended;

    const same = await stores.serve();
    expect(transactionIdOf(await order(same.url, 'paid'))).toBe(transactionIdOf(paid));
    await same.stop();
    const next = await stores.serve({}, await nextMigrations(stores.environment));
    expect(transactionIdOf(await order(next.url, 'paid'))).toBe(transactionIdOf(paid));
    expect((await order(next.url, 'new')).status).toBe(200);
  });
});

/** The file's last statement runs, after the changes of the tables. SQLite's lock shows that the transaction has begun. */
async function isMigrating(store: string): Promise<boolean> {
  if (store.startsWith('postgres')) {
    const client = new pg.Client({ connectionString: store });
    await client.connect();
    const asked = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
    return client
      .query(asked)
      .then(({ rowCount }) => rowCount === 1)
      .finally(() => client.end());
  }
  const database = new DatabaseSync(store, { timeout: 0 });
  try {
    database.exec('BEGIN IMMEDIATE; ROLLBACK');
    return false;
  } catch (error) {
    if (/locked/.test((error as Error).message)) return true;
    throw error;
  } finally {
    database.close();
  }
}

describe('a schema of PostgreSQL that a later version migrates while this one runs', () => {
  async function openOld() {
    const stores = await openTestStores();
    const { processor, real } = await startProcessor();
    const old = await stores.serve(real);
    const paid = await order(old.url, 'paid');
    return { stores, processor, real, old, paid };
  }
  const namesIn = async (stores: DistributedStores) =>
    (await stores.sql<{ name: string }>('SELECT name FROM idempay.migrations ORDER BY name')).map(({ name }) => name);

  test('side by side: the old process goes on, and another of its version starts', async () => {
    const { stores, processor, real, old, paid } = await openOld();
    const next = await stores.serve(real, await nextMigrations(stores.environment, 'Side by side'));
    const another = await stores.serve(real);
    for (const [at, { url }] of [old, next, another].entries()) {
      expect(transactionIdOf(await order(url, 'paid'))).toBe(transactionIdOf(paid));
      expect((await order(url, `new-${at}`)).status).toBe(200);
      expect((await refund(url, `part-${at}`)).status).toBe(200);
    }
    expect((await ask(`${old.url}/readyz`)).status).toBe(200);
    expect(await processor.charges()).toHaveLength(4);
  });

  test('after a full stop the old process writes nothing more, and says so', async () => {
    const { stores, processor, real, old, paid } = await openOld();
    const folder = await nextMigrations(stores.environment, 'Full stop');
    const next = await stores.serve(real, folder);
    await until('the old process to be out of service, and to say why', DEADLINE_MS, async () => {
      const { status } = await ask(`${old.url}/readyz`);
      return status === 503 && JSON.stringify(old.logs).includes(`A later version has migrated the database (${NEXT})`);
    });
    expect((await order(old.url, 'new')).status).toBe(503);
    expect((await postTransaction(old.url)).status).toBe(503);
    expect(transactionIdOf(await order(next.url, 'paid'))).toBe(transactionIdOf(paid));
    expect((await order(next.url, 'new')).status).toBe(200);
    expect(await processor.charges()).toHaveLength(2);
    await expect(stores.serve(real)).rejects.toThrow(`made by another version of Idempay (migration ${NEXT})`);
  });

  test('a process whose migration is gone, as after a restore, writes nothing more until it is started anew', async () => {
    const { stores, real, old } = await openOld();
    await old.stop();
    const folder = await nextMigrations(stores.environment);
    const next = await stores.serve(real, folder);
    const name = `DELETE FROM idempay.migrations WHERE name = '${NEXT}'`;
    await stores.sql(
      `ALTER TABLE idempay.payments DROP COLUMN note; ALTER TABLE idempay.deployment DROP COLUMN note; ${name}`,
    );
    // It stays ready, because no other process reaches the database, and it repeats what it has.
    let orders = 0;
    await until('the process to refuse payments', DEADLINE_MS, async () => {
      orders += 1;
      return (await order(next.url, `before-${orders}`)).status === 503;
    });
    const again = await stores.serve(real, folder);
    expect((await order(again.url, 'new')).status).toBe(200);
    await untilPaid(next.url, 'another');
  });

  test('two processes that migrate at once apply each file once, and both serve', async () => {
    const { stores, real, old } = await openOld();
    await old.stop();
    const folder = await nextMigrations(stores.environment);
    const both = await Promise.all([stores.serve(real, folder), stores.serve(real, folder)]);
    for (const [at, { url }] of both.entries()) expect((await order(url, `new-${at}`)).status).toBe(200);
    expect(await namesIn(stores)).toEqual(['0001_schema.sql', NEXT]);
  });

  /** Bug that this prevents: an ALTER TABLE that waits for a dump makes every later statement on the table wait behind it. */
  test('a file that waits for a table lets the payments of the old process through, and says what it waits for', async () => {
    const { stores, processor, old } = await openOld();
    const dump = new pg.Client({ connectionString: stores.databaseUrl });
    await dump.connect();
    onTestFinished(() => dump.end());
    await dump.query('BEGIN; LOCK TABLE idempay.payments IN ACCESS SHARE MODE');
    const notices: string[] = [];
    const { migrate } = await import('#idempay/stores/postgres/migrate.js');
    const folder = await nextMigrations(stores.environment, 'Side by side');
    const migrating = migrate(stores.databaseUrl, (sentence) => notices.push(sentence), folder);
    await until('the file to have waited', DEADLINE_MS, () => notices.length > 0);
    for (let at = 0; at < 20; at += 1) expect((await untilPaid(old.url, `order-${at}`)).status).toBe(200);
    expect(await namesIn(stores)).toEqual(['0001_schema.sql']);
    await dump.query('ROLLBACK');
    await migrating;
    expect(notices).toEqual([expect.stringContaining(`The migration ${NEXT} waits until no other session uses`)]);
    expect(await namesIn(stores)).toEqual(['0001_schema.sql', NEXT]);
    expect(await processor.charges()).toHaveLength(21);
  });
});

describe('the files of migrations', () => {
  const filesOf = (kind: string) =>
    readMigrations(pathToFileURL(join(ROOT, 'src', 'stores', kind, 'migrations', '/'))).map(({ name, mode }) => [
      name,
      mode,
    ]);

  test('have one name and one mode for both stores, so that a missing one shows', () => {
    expect(filesOf('embedded')).toEqual(filesOf('postgres'));
  });

  test.each([
    ['no mode', '0002_next.sql', 'SELECT 1'],
    ['no number', 'next.sql', '-- Full stop: for a test.'],
  ])('are refused with %s', async (_what, name, text) => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-migrations-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, name), text);
    expect(await readdir(folder)).toEqual([name]);
    expect(() => readMigrations(pathToFileURL(`${folder}/`))).toThrow(`The migration ${name} must be named`);
  });
});
