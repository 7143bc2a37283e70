// Runs one statement on the SQLite file of a service that may run, and prints its rows: `node query-sqlite.mjs FILE STATEMENT VALUES`.
import { DatabaseSync } from '@photostructure/sqlite';

const BUSY_TIMEOUT_MS = 5_000;
const [file, statement, ...values] = process.argv.slice(2);
const database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
process.stdout.write(JSON.stringify(database.prepare(statement).all(...values)));
database.close();
