import { readFileSync } from 'node:fs';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { migrate } from '#idempay/stores/postgres/migrate.js';
import { LONG_TABLES, SHORT_TABLES } from '#idempay/stores/shared/transferred-tables.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

const TABLES = [...LONG_TABLES, ...SHORT_TABLES];

/** Carried in another form: `TransferredDeployment`, the records of Redis, and a source in its payment's row. */
const IN_ANOTHER_FORM = new Set(['deployment', 'idempotency_keys', 'payment_sources']);
/** About the file alone. */
const OF_THE_FILE = new Set(['last_commit']);
/** In `claimed_at`; and the key of a table with one row. */
const COLUMNS_IN_OTHERS = new Set([
  'payments.claimed_at_wall',
  'payment_horizon.only_row',
  'transaction_list.only_row',
]);
/** From `payment_sources`. */
const COLUMNS_FROM_OTHERS = new Set(['payments.source']);

test('a transfer carries each table and each column of the embedded schema', () => {
  const database = new DatabaseSync(':memory:');
  const schema = new URL('../../src/stores/embedded/migrations/0001_schema.sql', import.meta.url);
  database.exec(readFileSync(schema, 'utf8'));
  const columns = database
    .prepare(`SELECT tables.name AS "table", columns.name AS "column" FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
      WHERE tables.type = 'table'`)
    .all() as { table: string; column: string }[];
  database.close();
  const found = columns
    .filter(({ table }) => !IN_ANOTHER_FORM.has(table) && !OF_THE_FILE.has(table))
    .map(({ table, column }) => `${table}.${column}`)
    .filter((name) => !COLUMNS_IN_OTHERS.has(name));
  const carried = namesOf().filter((name) => !COLUMNS_FROM_OTHERS.has(name));
  expect(carried.sort()).toEqual(found.sort());
});

test('PostgreSQL has a place for each of them', async () => {
  const { url, drop } = await createSharedDatabase();
  try {
    await migrate(url);
    const rows = await runSql<{ name: string }>(
      url,
      "SELECT table_name || '.' || column_name AS name FROM information_schema.columns WHERE table_schema = 'idempay'",
    );
    const there = new Set(rows.map(({ name }) => name));
    expect(namesOf().filter((name) => !there.has(name))).toEqual([]);
  } finally {
    await drop();
  }
});

function namesOf(): string[] {
  return TABLES.flatMap(({ name, columns }) => Object.keys(columns).map((column) => `${name}.${column}`));
}
