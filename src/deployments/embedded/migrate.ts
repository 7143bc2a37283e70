import { readdirSync, readFileSync } from 'node:fs';
import { CannotOpen } from '../deployment.js';
import type { Database } from './sqlite.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);

/**
 * Brings the schema up to date: `NNNN_slug.sql` files in order, each in one transaction, forward only. `user_version`
 * counts the applied ones and moves in the same transaction, so a crash leaves a migration done or not begun.
 */
export function migrate(database: Database): void {
  const files = migrationsIn();
  const applied = appliedIn(database);
  if (applied > files.length) {
    throw new CannotOpen(
      'The data was written by a newer version of Idempay. Start that version, or use another DATA_DIR.',
    );
  }
  for (const [index, file] of files.entries()) {
    if (index < applied) continue;
    const sql = readFileSync(new URL(file, MIGRATIONS), 'utf8');
    database.exec(`BEGIN IMMEDIATE; ${sql}; PRAGMA user_version = ${index + 1}; COMMIT`);
  }
}

/** The files of this version, in order. */
export function migrationsIn(): string[] {
  return readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .sort();
}

/** How many of them the database has had; more than there are: it is of a newer version. */
export function appliedIn(database: Database): number {
  return (database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}
