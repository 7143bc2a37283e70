import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { CannotOpen } from '#idempay/stores/shared/deployment.js';

describe('the schema of the embedded database', () => {
  let database: InstanceType<typeof DatabaseSync>;

  beforeEach(() => {
    database = new DatabaseSync(':memory:');
  });
  afterEach(() => database.close());

  const query = (sql: string) => database.prepare(sql).all() as Record<string, unknown>[];
  const schema = () => [
    query('SELECT type, name, sql FROM sqlite_master ORDER BY name'),
    query('PRAGMA user_version'),
    query('PRAGMA application_id'),
  ];

  test('is made from nothing, and left alone, with what is in it, when it is up to date', () => {
    migrate(database);
    const tables = query("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => name);
    expect(tables).toEqual(expect.arrayContaining(['idempotency_keys', 'payments', 'transactions']));
    expect(query('PRAGMA user_version')).toEqual([{ user_version: 1 }]);
    expect(database.isTransaction).toBe(false);
    database.exec('UPDATE transaction_list SET last_id = last_id + 7');
    const before = schema();
    migrate(database);
    expect(schema()).toEqual(before);
    expect(query('SELECT last_id FROM transaction_list')).toEqual([{ last_id: 100_000_000_000_007 }]);
  });

  test.each([
    ['a later version', () => migrate(database), 'PRAGMA user_version = 2'],
    ['an earlier version', () => {}, 'CREATE TABLE payments (key TEXT); PRAGMA user_version = 1'],
    ['another program', () => {}, 'CREATE TABLE payments (key TEXT)'],
  ])('of %s is refused with a sentence, and nothing is changed', (_version, prepare, sql) => {
    prepare();
    database.exec(sql);
    const before = schema();
    expect(() => migrate(database)).toThrow(CannotOpen);
    expect(() => migrate(database)).toThrow(/made by another version of Idempay .*user_version \d.*set DATA_DIR/);
    expect(schema()).toEqual(before);
  });

  test('a migration that fails leaves nothing behind', () => {
    const empty = schema();
    // Less than the schema needs, and enough for its first tables.
    database.exec('PRAGMA max_page_count = 8');
    expect(() => migrate(database)).toThrow(/full/);
    if (database.isTransaction) database.exec('ROLLBACK');
    expect(schema()).toEqual(empty);
  });
});
