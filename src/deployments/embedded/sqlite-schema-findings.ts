import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { type Finding, verdictOf } from '../../health/finding.js';
import { appliedIn, migrationsIn } from './migrate.js';
import type { Database } from './sqlite.js';

const BUSY_MS = 1_000;

const MIGRATIONS = {
  what: 'SQLite migrations',
  wanted: 'none that this version does not know',
  why: 'a start migrates what is pending, and refuses a database of a newer version',
} as const;

/** Compares the database with the files of this version. Nothing is migrated. */
export function examineMigrations(path: string): Finding {
  if (!existsSync(path)) {
    return { ...MIGRATIONS, found: 'none yet: the first start makes the database', verdict: 'ok' };
  }
  try {
    const files = migrationsIn();
    const applied = readApplied(path);
    const pending = files.slice(applied);
    if (applied > files.length) {
      const found = `of a newer version: ${applied}, and this one knows ${files.length}`;
      return { ...MIGRATIONS, found, verdict: 'wrong' };
    }
    const found = pending.length > 0 ? `pending: ${pending.join(', ')}` : `all ${files.length}`;
    return { ...MIGRATIONS, found, verdict: verdictOf(false, pending.length > 0) };
  } catch (error) {
    return { ...MIGRATIONS, found: `cannot be read: ${(error as Error).message}`, verdict: 'wrong' };
  }
}

function readApplied(path: string): number {
  const database = openUnchanged(path);
  try {
    return appliedIn(database);
  } finally {
    database.close();
  }
}

/**
 * Reading a database that no process has open would create files beside it that belong to this user, and that the service may not
 * be able to write. So it is opened as immutable. Where a service runs, or was killed, these files exist already.
 */
export function openUnchanged(path: string): Database {
  const url = pathToFileURL(path);
  if (!existsSync(`${path}-shm`)) url.searchParams.set('immutable', '1');
  return new DatabaseSync(url, { readOnly: true, timeout: BUSY_MS });
}
