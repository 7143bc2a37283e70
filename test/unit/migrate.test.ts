import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CannotOpen } from '#idempay/deployments/deployment.js';
import { migrate } from '#idempay/deployments/embedded/migrate.js';

describe('the schema of the embedded database', () => {
  let database: InstanceType<typeof DatabaseSync>;

  beforeEach(() => {
    database = new DatabaseSync(':memory:');
  });
  afterEach(() => database.close());

  const query = (sql: string) => database.prepare(sql).all() as Record<string, unknown>[];
  const version = () => Number(query('PRAGMA user_version')[0]?.user_version);
  const schema = () => query('SELECT type, name, sql FROM sqlite_master ORDER BY name');
  const tables = () => schema().flatMap(({ type, name }) => (type === 'table' ? [name] : []));

  test('is made from nothing, and left alone, with what is in it, when it is up to date', () => {
    migrate(database);
    expect(tables()).toEqual(expect.arrayContaining(['idempotency_keys', 'payments', 'transactions']));
    expect(version()).toBeGreaterThan(0);
    expect(database.isTransaction).toBe(false);
    database.exec('UPDATE transaction_list SET last_id = last_id + 7');
    const before = [schema(), version()];
    migrate(database);
    expect([schema(), version()]).toEqual(before);
    expect(query('SELECT last_id FROM transaction_list')).toEqual([{ last_id: 100_000_000_000_007 }]);
  });

  test('of a newer version is refused with a sentence, and nothing is changed', () => {
    migrate(database);
    database.exec(`PRAGMA user_version = ${version() + 1}`);
    const before = [schema(), version()];
    expect(() => migrate(database)).toThrow(CannotOpen);
    expect(() => migrate(database)).toThrow(/written by a newer version of Idempay/);
    expect([schema(), version()]).toEqual(before);
  });

  test('a migration that fails leaves neither its changes nor its version behind', () => {
    // Stands in the way of the last statement of the first migration, so that all before it must be rolled back.
    database.exec('CREATE TABLE payments_under_way (n INTEGER)');
    expect(() => migrate(database)).toThrow();
    if (database.isTransaction) database.exec('ROLLBACK');
    expect(version()).toBe(0);
    expect(tables()).toEqual(['payments_under_way']);
  });
});
