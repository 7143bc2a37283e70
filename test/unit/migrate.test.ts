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

  function version(): number {
    return (database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
  }

  function schema(): unknown[] {
    return database.prepare('SELECT name, sql FROM sqlite_master ORDER BY name').all();
  }

  function tables(): unknown[] {
    const names = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`).all();
    return (names as { name: string }[]).map(({ name }) => name);
  }

  test('is made from nothing', () => {
    migrate(database);
    expect(tables()).toEqual(expect.arrayContaining(['idempotency_keys', 'payments', 'transactions']));
    expect(version()).toBeGreaterThan(0);
    expect(database.isTransaction).toBe(false);
  });

  test('is left alone, with what is in it, when it is up to date', () => {
    migrate(database);
    database.exec('UPDATE transaction_list SET last_id = last_id + 7');
    const [before, versionBefore] = [schema(), version()];
    migrate(database);
    expect(schema()).toEqual(before);
    expect(version()).toBe(versionBefore);
    expect(database.prepare('SELECT last_id FROM transaction_list').all()).toEqual([{ last_id: 100_000_000_000_007 }]);
  });

  test('of a newer version is refused with a sentence, and nothing is changed', () => {
    migrate(database);
    const newest = version() + 1;
    database.exec(`PRAGMA user_version = ${newest}`);
    const before = schema();
    expect(() => migrate(database)).toThrow(CannotOpen);
    expect(() => migrate(database)).toThrow(/written by a newer version of Idempay/);
    expect(schema()).toEqual(before);
    expect(version()).toBe(newest);
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
