import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { findingsOfFolder, findingsOfPostgres, rowOf } from '../../testkit/deployments/doctor.js';
import { runToExit } from '../../testkit/processes/service.js';

const ROW = "INSERT INTO payments VALUES ('01936f3e-0000-7000-8000-000000000001', 'COMPLETED')";

/** As before the one file that says the whole schema: eleven files were counted, and `application_id` was not set. */
const SQLITE_OF_BEFORE = `
  PRAGMA journal_mode = WAL;
  CREATE TABLE payments (key TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
  PRAGMA user_version = 11;
  ${ROW}`;

describe('a SQLite file whose schema another version made', () => {
  let folder: string;
  const pathOf = (name: string) => join(folder, name);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-foreign-'));
    const database = new DatabaseSync(pathOf('original'));
    database.exec(SQLITE_OF_BEFORE);
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    // As a kill leaves it: the last commit is in the log alone.
    database.exec(ROW.replace('01936f3e', '01936f3f'));
    for (const suffix of ['', '-wal']) await copyFile(pathOf(`original${suffix}`), pathOf(`idempay.sqlite${suffix}`));
    database.close();
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const contents = () => Promise.all(['', '-wal'].map((suffix) => readFile(pathOf(`idempay.sqlite${suffix}`))));

  test.each([
    ['a start', []],
    ['`idempay backup`', ['backup', join(tmpdir(), 'idempay-copy-of-a-foreign-file')]],
    ['`idempay restored`', ['restored']],
  ])('is refused by %s with a sentence, and keeps every byte', async (_what, parameters) => {
    const before = await contents();
    const { code, output } = await runToExit({ DATA_DIR: folder }, { parameters });
    expect(output).toMatch(
      /DATA_DIR was made by another version of Idempay \(application_id 0, user_version 11\), and nothing in it was changed/,
    );
    expect(output).toMatch(/Start that version, or set DATA_DIR to another folder/);
    expect(code).not.toBe(0);
    expect(await contents()).toEqual(before);
  });

  test('is found by the doctor', async () => {
    const row = rowOf(await findingsOfFolder(folder), 'SQLite schema');
    expect(row).toMatchObject({ verdict: 'wrong', found: 'of another version: application_id 0, user_version 11' });
  });
});

/** As before the one file that says the whole schema: two lists of eleven files. */
const POSTGRES_OF_BEFORE = `
  CREATE SCHEMA idempay;
  CREATE TABLE idempay.migrations (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE idempay.additive_migrations (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE idempay.payments (key uuid NOT NULL PRIMARY KEY, state text NOT NULL);
  ${ROW.replace('payments', 'idempay.payments')};
  INSERT INTO idempay.migrations VALUES ('0001_payments.sql'), ('0002_transactions.sql');
  INSERT INTO idempay.additive_migrations VALUES ('0008_clients.additive.sql')`;
const TABLES_ALONE = `CREATE SCHEMA idempay; CREATE TABLE idempay.migrations (name text NOT NULL);
  CREATE TABLE idempay.payments (key uuid NOT NULL)`;

/** The parts that a start could change: the schema's tables with their columns, and the rows of the list. */
const SCHEMA = `
  SELECT table_name, column_name, xmin::text FROM information_schema.columns, idempay.migrations
  WHERE table_schema = 'idempay' ORDER BY 1, 2, 3`;

test.each([
  ['of the version before', POSTGRES_OF_BEFORE, 'migration 0001_payments.sql'],
  ['without a list of migrations', TABLES_ALONE, 'tables without a list of migrations'],
])('a schema of PostgreSQL %s is refused with a sentence, and nothing in it is changed', async (_what, sql, shown) => {
  const stores = await openTestStores();
  await stores.sql(sql);
  const before = await stores.sql(SCHEMA);
  const refusal = `made by another version of Idempay (${shown}), and nothing in it was changed. Start that version,`;
  await expect(stores.serve()).rejects.toMatchObject({
    name: 'CannotOpen',
    message: expect.stringContaining(refusal),
  });
  expect(await stores.sql(SCHEMA)).toEqual(before);

  const row = rowOf(await findingsOfPostgres(stores.databaseUrl), 'PostgreSQL schema');
  expect(row).toMatchObject({ verdict: 'wrong', found: `of another version: ${shown}` });
});
