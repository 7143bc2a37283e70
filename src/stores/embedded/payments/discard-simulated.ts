import { refuseRealPayments } from '../../shared/checks.js';
import { beginIncarnation } from '../file/adoption.js';
import { changeUpToDate } from '../file/stopped-database.js';
import { ERASE_ALL_SOURCES } from './payment-sources.js';
import { readProcessorNames } from './processor-names.js';

/** Everything of payments and their keys, in one commit: a death before it leaves all of them, and a second run finds none. */
const DISCARD = `
  BEGIN IMMEDIATE;
  DELETE FROM payments;
  DELETE FROM idempotency_keys;
  ${ERASE_ALL_SOURCES};
  ${beginIncarnation('(SELECT clock_ms FROM last_commit)')};
  UPDATE deployment SET processors = '[]';
  UPDATE last_commit SET number = number + 1, key_records = 0;
  COMMIT`;

/**
 * Removes the payments of a folder in which all are simulated, and all keys; transactions stay. Returns false if there is nothing to
 * remove. Throws CannotOpen, with nothing changed, if a service runs on the folder, a payment was made at a processor, or an earlier
 * version made the schema. `migrations`: a folder in place of this version's files.
 */
export function discardSimulatedPayments(dataDir: string, migrations?: URL): boolean {
  return changeUpToDate({ dataDir, migrations }, (database) => {
    const { used } = readProcessorNames(database);
    refuseRealPayments(used);
    if (used.length === 0) return false;
    database.exec(DISCARD);
    return true;
  });
}
