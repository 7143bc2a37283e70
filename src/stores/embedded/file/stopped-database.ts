import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CannotOpen } from '../../shared/deployment.js';
import { refuseForeignFile, refuseForeignSchema, refusePending } from '../migrate.js';
import { DATABASE, takeExclusively } from './exclusive-folder.js';
import type { CommitMark } from './last-commit.js';
import { refuseLeaving } from './leaving-mark.js';
import { type Database, openForWriting } from './sqlite.js';
import { assertLogBelongs } from './write-ahead-log.js';

/** The path of the folder's database. Throws CannotOpen if there is none. */
export function databaseIn(dataDir: string): string {
  const path = join(dataDir, DATABASE);
  if (!existsSync(path)) throw new CannotOpen(`There is no database in ${dataDir}: set DATA_DIR to the service's.`);
  return path;
}

/**
 * Changes the database of a folder that no service runs on. Throws CannotOpen, with nothing changed, if one does. `remembered`: the last
 * commit that the folder knows of. `migrations`: a folder in place of this version's files.
 */
export function changeStopped<Result>(
  dataDir: string,
  change: (database: Database, remembered: CommitMark | undefined) => Result,
  migrations?: URL,
): Result {
  const path = databaseIn(dataDir);
  const folder = takeExclusively(dataDir);
  try {
    refuseForeignFile(path, migrations);
    assertLogBelongs(path);
    const database = openForWriting(path);
    try {
      refuseForeignSchema(database, migrations);
      refuseLeaving(database, `Nothing was changed in ${dataDir}`);
      return change(database, folder.remembered);
    } finally {
      database.close();
    }
  } finally {
    folder.release();
  }
}

/** The same for a change that needs the schema of this version. Throws CannotOpen, with nothing changed, if an earlier version made it. */
export function changeUpToDate<Result>(
  { dataDir, migrations }: { readonly dataDir: string; readonly migrations: URL | undefined },
  change: (database: Database, remembered: CommitMark | undefined) => Result,
): Result {
  const changeIt = (database: Database, remembered: CommitMark | undefined) => {
    refusePending(database, migrations);
    return change(database, remembered);
  };
  return changeStopped(dataDir, changeIt, migrations);
}
