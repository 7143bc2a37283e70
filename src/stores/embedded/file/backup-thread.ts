import { workerData } from 'node:worker_threads';
import { openForReading } from './sqlite.js';

/**
 * Reads one snapshot and writes it into a new file. One statement and not a stepped backup, which begins again with each commit
 * of the service.
 */
const { source, target } = workerData as { source: string; target: string };
const database = openForReading(source);
// Without this the new file would keep what a page held before it was divided (see `payment-sources.ts`).
database.exec('PRAGMA secure_delete = FAST');
database.prepare('VACUUM INTO ?').run(target);
database.close();
