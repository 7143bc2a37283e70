import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openLeavingFolder } from '#idempay/stores/embedded/file/leaving-folder.js';
import { migrate as migrateFile } from '#idempay/stores/embedded/migrate.js';
import { adoptUnowned } from '#idempay/stores/embedded/payments/adopt.js';
import { discardSimulatedPayments } from '#idempay/stores/embedded/payments/discard-simulated.js';
import { migrate } from '#idempay/stores/postgres/migrate.js';
import { openTransferTarget } from '#idempay/stores/postgres/transfer-target.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { serveInProcess } from '../../testkit/processes/service-in-process.js';
import { nextMigrations } from '../../testkit/protocol/next-migration.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { patience } from '../../testkit/time/patience.js';

const NAME = 'a'.repeat(32);

/** What a later version finds of this one, before anything that it may refuse was looked at. */

async function openFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-versions-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  // A service that ends locks it for a moment.
  const database = new DatabaseSync(join(folder, 'idempay.sqlite'), { timeout: patience(5_000) });
  onTestFinished(() => database.close());
  const version = () => database.prepare('PRAGMA user_version').get();
  return { folder, database, version };
}

test('a later version opens a folder of this one without changing it', async () => {
  const { folder, database, version } = await openFolder();
  expect(() => openLeavingFolder(folder)).toThrow('has nothing in it yet');
  migrateFile(database);
  const leaving = openLeavingFolder(folder, await nextMigrations({ DATA_DIR: folder }));
  try {
    expect(leaving.mark).toBeUndefined();
    expect(version()).toEqual({ user_version: 1 });
    leaving.migrate();
    expect(version()).toEqual({ user_version: 2 });
  } finally {
    leaving.close();
  }
});

test('a later version does not go on with a transfer of this one', async () => {
  const { url, drop } = await createSharedDatabase();
  onTestFinished(drop);
  await migrate(url, undefined, undefined, NAME);
  const target = await openTransferTarget(url);
  try {
    expect(await target.find()).toEqual({ name: NAME, state: 'COPYING' });
    await expect(target.find(await nextMigrations({}))).rejects.toThrow('An earlier version of Idempay');
  } finally {
    await target.close();
  }
});

/**
 * Bug: a later version that was started on a folder or a target under way brought its schema up to date, and then refused to serve. The earlier
 * version, which had to go on with the transfer, refused that schema. Fix: what refuses a start is looked at first.
 */
describe('a start of a later version that is refused leaves the schema to the version of the transfer', () => {
  test('in the folder', async () => {
    const { folder, database, version } = await openFolder();
    migrateFile(database);
    database.exec(`UPDATE deployment SET transfer = '${NAME}'`);
    const next = await nextMigrations({ DATA_DIR: folder });
    await expect(serveInProcess({ DATA_DIR: folder }, {}, next)).rejects.toThrow(
      'idempay transfer moves this deployment',
    );
    expect(version()).toEqual({ user_version: 1 });
    database.exec('UPDATE deployment SET transfer = NULL');
    await (await serveInProcess({ DATA_DIR: folder }, {}, next)).stop();
    expect(version()).toEqual({ user_version: 2 });
  });

  test('in the target', async () => {
    const stores = await openTestStores();
    await migrate(stores.databaseUrl, undefined, undefined, NAME);
    const next = await nextMigrations({});
    await expect(stores.serve({}, next)).rejects.toThrow('has not copied everything into this database yet');
    expect(await stores.sql('SELECT name FROM idempay.migrations')).toEqual([{ name: '0001_schema.sql' }]);
    await stores.sql("UPDATE idempay.transfer SET state = 'COMPLETE'");
    await stores.serve({}, next);
    expect(await stores.sql('SELECT name FROM idempay.migrations')).toHaveLength(2);
  });
});

/**
 * Bug: a command of a later version brought the schema of a folder up to date before it refused to change anything. Fix: as in PostgreSQL, it
 * changes only the schema of its own version.
 */
test('a command of a later version changes no folder of this one', async () => {
  const { folder, database, version } = await openFolder();
  migrateFile(database);
  const next = await nextMigrations({ DATA_DIR: folder });
  const refusal = 'Nothing was changed: start this version of the service on the folder first.';
  expect(() => adoptUnowned(folder, 'key:shop', next)).toThrow(refusal);
  expect(() => discardSimulatedPayments(folder, next)).toThrow(refusal);
  expect(version()).toEqual({ user_version: 1 });
  migrateFile(database, next);
  expect(adoptUnowned(folder, 'key:shop', next)).toBe(0);
  expect(discardSimulatedPayments(folder, next)).toBe(false);
});
