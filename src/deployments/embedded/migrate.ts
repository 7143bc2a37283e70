import { readdirSync, readFileSync } from 'node:fs';
import { CannotOpen } from '../deployment.js';
import type { Database } from './sqlite.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);

/**
 * Brings the schema up to date: `NNNN_slug.sql` files in order, each in one transaction, forward only. `user_version`
 * counts the applied ones and moves in the same transaction, so a crash leaves a migration done or not begun.
 */
export function migrate(database: Database): void {
  const files = readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .sort();
  const { user_version: applied } = database.prepare('PRAGMA user_version').get() as { user_version: number };
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
