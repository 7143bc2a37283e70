import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { CannotOpen } from '../shared/deployment.js';
import { type FoundSchema, refuseForeign } from '../shared/found-schema.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
const CONNECT_TIMEOUT_MS = 5_000;
/** Key of the advisory lock under which processes migrate one at a time: a number that no other program uses. */
const ADVISORY_LOCK = 4_242_017_001;

/** How often a start that waits for the lock asks again. */
const LOCK_RETRY_MS = 500;
/** Waiting is reported after two seconds only: processes often start together. */
const TRIES_BEFORE_NOTICE = 4;
const LOCK_QUERY_TIMEOUT_MS = 5_000;

const TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('idempay') AND relkind = 'r'";
/** A service may have begun to serve on it meanwhile. */
export const IN_USE =
  'The database of DATABASE_URL has a schema idempay already, which this transfer did not make, and nothing in it was changed. Name an empty database, or drop that schema if nothing in it is needed.';
const LIST = 'SELECT name FROM idempay.migrations ORDER BY name';

/**
 * Brings the schema `idempay` up to date: `NNNN_slug.sql` files in order, each in one transaction. While another process migrates
 * it waits for the lock, for as long as that takes; `onWait` is called with a sentence about the wait. Throws CannotOpen, with
 * nothing changed, if another version made the schema. `transfer` names the transfer that the schema is made for: no service finds the
 * schema without that name, and a schema that is there already is refused.
 */
export async function migrate(
  databaseUrl: string,
  onWait: (sentence: string) => void = () => {},
  transfer?: string,
): Promise<void> {
  // A connection of its own, without the pool's time limits: a migration takes as long as it takes.
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => {});
  try {
    await client.connect();
    await takeLock(client, onWait);
    const found = await readSchema(client);
    refuseForeign(found, 'The schema idempay in the database of DATABASE_URL', 'name another database');
    if (transfer !== undefined && !found.isEmpty) throw new CannotOpen(IN_USE);
    for (const [index, file] of found.pending.entries()) await apply(client, file, index === 0 ? transfer : undefined);
  } finally {
    // Releases the lock too.
    await client.end().catch(() => {});
  }
}

/** Polls for the lock instead of waiting in one query, so that a lost connection is noticed. */
async function takeLock(client: Client, onWait: (sentence: string) => void): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const question = {
      text: 'SELECT pg_try_advisory_lock($1) AS taken',
      values: [ADVISORY_LOCK],
      query_timeout: LOCK_QUERY_TIMEOUT_MS,
    };
    const { rows } = await client.query<{ taken: boolean }>(question);
    if (rows[0]?.taken) return;
    if (tries === TRIES_BEFORE_NOTICE) onWait('Another process migrates the database; the start waits for its turn.');
    await delay(LOCK_RETRY_MS);
  }
}

/** Compares the schema with the files of this version. */
export async function readSchema(client: Client): Promise<FoundSchema & { readonly isEmpty?: boolean }> {
  const files = readdirSync(MIGRATIONS).sort();
  const tables = await client.query<{ relname: string }>(TABLES);
  if (tables.rowCount === 0) return { pending: files, foreign: undefined, isEmpty: true };
  const isListed = tables.rows.some(({ relname }) => relname === 'migrations');
  const { rows } = isListed ? await client.query<{ name: string }>(LIST) : { rows: [] };
  const names = rows.map(({ name }) => name);
  // The tables and the first name come in one commit.
  if (names.length === 0) return { pending: [], foreign: 'tables without a list of migrations' };
  const unknown = names.find((name) => !files.includes(name));
  return {
    pending: files.filter((file) => !names.includes(file)),
    foreign: unknown && `migration ${unknown}`,
  };
}

async function apply(client: Client, file: string, transfer: string | undefined): Promise<void> {
  // Asked first, because the right to create schemas is needed only if the schema is not there yet.
  const { rowCount } = await client.query("SELECT FROM pg_namespace WHERE nspname = 'idempay'");
  const sql = readFileSync(new URL(file, MIGRATIONS), 'utf8');
  const mark = transfer === undefined ? '' : `INSERT INTO idempay.transfer VALUES (true, '${transfer}', 'COPYING');`;
  await client.query(`BEGIN; ${rowCount === 0 ? 'CREATE SCHEMA idempay;' : ''} ${sql}; ${mark}
    INSERT INTO idempay.migrations (name) VALUES ('${file}'); COMMIT`);
}
