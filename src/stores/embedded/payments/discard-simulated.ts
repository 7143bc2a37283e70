import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { refuseRealPayments } from '../../shared/checks.js';
import { CannotOpen } from '../../shared/deployment.js';
import { DATABASE, takeExclusively } from '../file/exclusive-folder.js';
import { openForWriting } from '../file/sqlite.js';
import { assertLogBelongs } from '../file/write-ahead-log.js';
import { migrate, refuseForeignFile } from '../migrate.js';
import { ERASE_ALL_SOURCES } from './payment-sources.js';
import { readProcessorNames } from './processor-names.js';

/** Everything of payments and their keys, in one commit: a death before it leaves all of them, and a second run finds none. */
const DISCARD = `
  BEGIN IMMEDIATE;
  DELETE FROM payments;
  DELETE FROM idempotency_keys;
  ${ERASE_ALL_SOURCES};
  UPDATE deployment SET processors = '[]';
  UPDATE last_commit SET number = number + 1, key_records = 0;
  COMMIT`;

/**
 * Removes the payments of a folder in which all are simulated, and all keys; transactions stay. Returns false where there is nothing to
 * remove. Throws CannotOpen, with nothing changed, where a service runs on the folder or a payment was made at a processor.
 */
export function discardSimulatedPayments(dataDir: string): boolean {
  const path = join(dataDir, DATABASE);
  if (!existsSync(path)) throw new CannotOpen(`There is no database in ${dataDir}: set DATA_DIR to the service's.`);
  const folder = takeExclusively(dataDir);
  try {
    refuseForeignFile(path);
    assertLogBelongs(path);
    const database = openForWriting(path);
    try {
      migrate(database);
      const { used } = readProcessorNames(database);
      refuseRealPayments(used);
      if (used.length === 0) return false;
      database.exec(DISCARD);
      return true;
    } finally {
      database.close();
    }
  } finally {
    folder.release();
  }
}
