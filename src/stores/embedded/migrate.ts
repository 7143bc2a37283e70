import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { CannotOpen } from '../shared/deployment.js';
import { type FoundSchema, refuseForeign } from '../shared/found-schema.js';
import { readMigrations } from '../shared/migrations.js';
import type { Database } from './file/sqlite.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
/** 'idem' in ASCII, which `0001_schema.sql` sets. */
const APPLICATION_ID = 0x6964656d;
const IN_DATA_DIR = ['The database in DATA_DIR', 'set DATA_DIR to another folder'] as const;
/**
 * For the log of the database, which must not begin without the row of the last commit (`write-ahead-log.ts`). The number stays: a copy
 * that lacks commits must not get as many as are known of.
 */
const NOTE_COMMIT = 'UPDATE last_commit SET clock_ms = clock_ms + 1';

/**
 * Brings the schema up to date: `NNNN_slug.sql` files in order, each in one transaction. `user_version` is the number of
 * the last one and moves in the same transaction, so a crash leaves a file applied or not begun. Throws CannotOpen, with nothing changed,
 * if a later version made the schema, or another program. `folder`: in place of this version's files.
 */
export function migrate(database: Database, folder: URL = MIGRATIONS): void {
  const found = readSchema(database, folder);
  refuseForeign(found, ...IN_DATA_DIR);
  for (const { name, sql } of found.pending) {
    database.exec(`BEGIN IMMEDIATE; ${sql}; ${NOTE_COMMIT}; PRAGMA user_version = ${numberOf(name)}; COMMIT`);
  }
}

/** True if there is a schema, of this version or of an earlier one. Throws CannotOpen if another version made it. Changes nothing. */
export function hasSchema(database: Database, folder: URL = MIGRATIONS): boolean {
  const found = readSchema(database, folder);
  refuseForeign(found, ...IN_DATA_DIR);
  return found.pending.length < readMigrations(folder).length;
}

/** Throws CannotOpen if there is no schema yet, or another version made it. Changes nothing. */
export function refuseForeignSchema(database: Database, folder?: URL): void {
  if (hasSchema(database, folder)) return;
  throw new CannotOpen("The database in DATA_DIR has nothing in it yet: set DATA_DIR to the service's.");
}

/** Throws CannotOpen if the schema is not up to date. Changes nothing. */
export function refusePending(database: Database, folder?: URL): void {
  if (readSchema(database, folder).pending.length === 0) return;
  throw new CannotOpen('Nothing was changed: start this version of the service on the folder first.');
}

/** Compares the database with the files of this version. */
export function readSchema(database: Database, folder: URL = MIGRATIONS): FoundSchema {
  const read = (sql: string) => Number(Object.values(database.prepare(sql).get() ?? {})[0]);
  const files = readMigrations(folder);
  const [id, version] = [read('PRAGMA application_id'), read('PRAGMA user_version')];
  const isEmpty = id === 0 && version === 0 && read('SELECT count(*) FROM sqlite_schema') === 0;
  if (isEmpty || (id === APPLICATION_ID && version <= numberOf(files.at(-1)?.name ?? ''))) {
    return { pending: files.filter(({ name }) => numberOf(name) > version), foreign: undefined };
  }
  return { pending: [], foreign: `application_id ${id}, user_version ${version}` };
}

const numberOf = (file: string) => Number.parseInt(file, 10);

/**
 * Throws CannotOpen if another version made the schema of a file. Reads the file alone, without its log: opened in the usual
 * way, SQLite may change both. A schema that is only in the log is left to `migrate`.
 */
export function refuseForeignFile(path: string, folder?: URL): void {
  // Nothing to read, or not there.
  if (!statSync(path, { throwIfNoEntry: false })?.size) return;
  const database = new DatabaseSync(new URL(`${pathToFileURL(path)}?immutable=1`), { readOnly: true });
  let found: FoundSchema | undefined;
  try {
    found = readSchema(database, folder);
  } catch {
    // Damaged, or whole only together with its log: the start that opens it says which.
  } finally {
    database.close();
  }
  if (found) refuseForeign(found, ...IN_DATA_DIR);
}
