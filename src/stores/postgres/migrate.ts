import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { CannotOpen } from '../shared/deployment.js';
import { type FoundSchema, refuseForeign } from '../shared/found-schema.js';
import { type Migration, readMigrations } from '../shared/migrations.js';
import { END_WITH_HOST } from './connection/session.js';

export const MIGRATIONS = new URL('./migrations/', import.meta.url);
export const OTHER_SCHEMA = ['The schema idempay in the database of DATABASE_URL', 'name another database'] as const;
const CONNECT_TIMEOUT_MS = 5_000;
/** Key of the advisory lock under which processes migrate one at a time: a number that no other program uses. */
const ADVISORY_LOCK = 4_242_017_001;

/** How often a start that waits for the lock asks again. */
const LOCK_RETRY_MS = 500;
/** Waiting is reported after two seconds only: processes often start together. */
const TRIES_BEFORE_NOTICE = 4;
const LOCK_QUERY_TIMEOUT_MS = 5_000;

/**
 * A statement of a file waits this long for a lock of a table, and every later statement on that table waits behind it. So it is shorter
 * than the time after which payments are given up (`STATEMENT_TIMEOUT_MS`).
 */
const TABLE_LOCK_TIMEOUT_MS = 1_000;
/** The pause before a file that was rolled back is begun again. Statements that waited behind it run meanwhile. */
const TABLE_LOCK_PAUSE_MS = 2_000;
/** The server notices within a second that the process died in the middle of a file, and gives the locks back. Versions before 14 lack it. */
const NOTICE_DEATH =
  "SELECT set_config(name, '1000', true) FROM pg_settings WHERE name = 'client_connection_check_interval'";
/** SQLSTATE: no lock within the limit, or a deadlock. */
const NO_LOCK = ['55P03', '40P01'];

const TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('idempay') AND relkind = 'r'";
/** A service may have begun to serve on it meanwhile. */
export const IN_USE =
  'The database of DATABASE_URL has a schema idempay already, which this transfer did not make, and nothing in it was changed. Name an empty database, or drop that schema if nothing in it is needed.';
/** Lists of builds before the first release have no mode. */
const LIST = "SELECT name, to_jsonb(applied) ->> 'mode' AS mode FROM idempay.migrations AS applied ORDER BY name";

/**
 * Brings the schema `idempay` up to date with the files that `folder` has: in order, each in one transaction. While another process migrates
 * it waits for the lock, and while others use a table that a file changes it tries again, for as long as that takes; `onWait` is called with
 * a sentence about the wait. Throws CannotOpen, with nothing changed, if a later version made the schema, or an earlier one than the first.
 * `transfer` names the transfer that the schema is made for: no service finds the schema without that name, and a schema that is there
 * already is refused.
 */
export async function migrate(
  databaseUrl: string,
  onWait: (sentence: string) => void = () => {},
  folder: URL = MIGRATIONS,
  transfer?: string,
): Promise<void> {
  // A connection of its own, without the pool's time limits: a migration takes as long as it takes.
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query(END_WITH_HOST);
    await takeLock(client, onWait);
    const found = await readSchema(client, folder);
    refuseForeign(found, ...OTHER_SCHEMA);
    if (transfer !== undefined && !found.isEmpty) throw new CannotOpen(IN_USE);
    for (const [index, file] of found.pending.entries())
      await applyInTurn(client, file, onWait, index === 0 ? transfer : undefined);
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

/**
 * Compares the schema with the files that `folder` has. A version may go on with the schema of a later one, up to the first full stop, so that
 * processes can be replaced one by one.
 */
export async function readSchema(
  client: Client,
  folder: URL = MIGRATIONS,
): Promise<FoundSchema & { readonly isEmpty?: boolean }> {
  const files = readMigrations(folder);
  const tables = await client.query<{ relname: string }>(TABLES);
  if (tables.rowCount === 0) return { pending: files, foreign: undefined, isEmpty: true };
  const isListed = tables.rows.some(({ relname }) => relname === 'migrations');
  const { rows } = isListed ? await client.query<{ name: string; mode: string | null }>(LIST) : { rows: [] };
  // The tables and the first name come in one commit.
  if (rows.length === 0) return { pending: [], foreign: 'tables without a list of migrations' };
  const pending = files.filter((file) => rows.every(({ name }) => name !== file.name));
  const unknown = rows.filter(({ name, mode }) => mode === null || files.every((file) => file.name !== name));
  const refused = unknown.find(({ mode }) => mode !== 'side by side' || pending.length > 0);
  return { pending, foreign: refused && `migration ${refused.name}` };
}

/** Applies one file, again and again until it has all of its locks. */
async function applyInTurn(
  client: Client,
  file: Migration,
  onWait: (sentence: string) => void,
  transfer: string | undefined,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await apply(client, file, transfer);
    } catch (error) {
      await client.query('ROLLBACK');
      if (!NO_LOCK.includes(String((error as { code?: unknown }).code))) throw error;
      if (tries === 0)
        onWait(
          `The migration ${file.name} waits until no other session uses the tables that it changes, such as a long pg_dump.`,
        );
    }
    await delay(TABLE_LOCK_PAUSE_MS);
  }
}

async function apply(client: Client, { name, sql, mode }: Migration, transfer: string | undefined): Promise<void> {
  // Asked first, because the right to create schemas is needed only if the schema is not there yet.
  const { rowCount } = await client.query("SELECT FROM pg_namespace WHERE nspname = 'idempay'");
  const mark = transfer === undefined ? '' : `INSERT INTO idempay.transfer VALUES (true, '${transfer}', 'COPYING');`;
  // The user may have limits of its own.
  await client.query(`BEGIN; SET LOCAL lock_timeout = ${TABLE_LOCK_TIMEOUT_MS}; SET LOCAL statement_timeout = 0; ${NOTICE_DEATH};
    ${rowCount === 0 ? 'CREATE SCHEMA idempay;' : ''} ${sql}; ${mark}
    INSERT INTO idempay.migrations (name, mode) VALUES ('${name}', '${mode}'); COMMIT`);
}
