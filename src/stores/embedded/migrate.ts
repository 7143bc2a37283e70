import { readdirSync, readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { type FoundSchema, refuseForeign } from '../shared/found-schema.js';
import type { Database } from './file/sqlite.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
/** 'idem' in ASCII, which `0001_schema.sql` sets. */
const APPLICATION_ID = 0x6964656d;
const IN_DATA_DIR = ['The database in DATA_DIR', 'set DATA_DIR to another folder'] as const;

/**
 * Brings the schema up to date: `NNNN_slug.sql` files in order, each in one transaction. `user_version` is the number of
 * the last one and moves in the same transaction, so a crash leaves a file applied or not begun. Throws CannotOpen, with nothing changed,
 * if another version made the schema.
 */
export function migrate(database: Database): void {
  const found = readSchema(database);
  refuseForeign(found, ...IN_DATA_DIR);
  for (const file of found.pending) {
    const sql = readFileSync(new URL(file, MIGRATIONS), 'utf8');
    database.exec(`BEGIN IMMEDIATE; ${sql}; PRAGMA user_version = ${numberOf(file)}; COMMIT`);
  }
}

/** Compares the database with the files of this version. */
export function readSchema(database: Database): FoundSchema {
  const read = (sql: string) => Number(Object.values(database.prepare(sql).get() ?? {})[0]);
  const files = readdirSync(MIGRATIONS).sort();
  const [id, version] = [read('PRAGMA application_id'), read('PRAGMA user_version')];
  const isEmpty = id === 0 && version === 0 && read('SELECT count(*) FROM sqlite_schema') === 0;
  if (isEmpty || (id === APPLICATION_ID && version <= numberOf(files.at(-1) ?? ''))) {
    return { pending: files.filter((file) => numberOf(file) > version), foreign: undefined };
  }
  return { pending: [], foreign: `application_id ${id}, user_version ${version}` };
}

const numberOf = (file: string) => Number.parseInt(file, 10);

/**
 * Throws CannotOpen if another version made the schema of a file. Reads the file alone, without its log: opened in the usual
 * way, SQLite may change both. A schema that is only in the log is left to `migrate`.
 */
export function refuseForeignFile(path: string): void {
  // Nothing to read, or not there.
  if (!statSync(path, { throwIfNoEntry: false })?.size) return;
  const database = new DatabaseSync(new URL(`${pathToFileURL(path)}?immutable=1`), { readOnly: true });
  let found: FoundSchema | undefined;
  try {
    found = readSchema(database);
  } catch {
    // Damaged, or whole only together with its log: the start that opens it says which.
  } finally {
    database.close();
  }
  if (found) refuseForeign(found, ...IN_DATA_DIR);
}
