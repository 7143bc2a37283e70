import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { openLeavingFolder } from '#idempay/stores/embedded/file/leaving-folder.js';
import { migrate as migrateFile } from '#idempay/stores/embedded/migrate.js';
import { migrate } from '#idempay/stores/postgres/migrate.js';
import { openTransferTarget } from '#idempay/stores/postgres/transfer-target.js';
import { nextMigrations } from '../../testkit/protocol/next-migration.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

const NAME = 'a'.repeat(32);

/** What a later version finds of this one, before anything that it may refuse was looked at. */

test('a later version opens a folder of this one without changing it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-versions-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const database = new DatabaseSync(join(folder, 'idempay.sqlite'));
  onTestFinished(() => database.close());
  expect(() => openLeavingFolder(folder)).toThrow('has nothing in it yet');
  migrateFile(database);
  const version = () => database.prepare('PRAGMA user_version').get();
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
