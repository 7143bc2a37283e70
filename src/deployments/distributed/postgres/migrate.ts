import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { CannotOpen } from '../../deployment.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
const CONNECT_TIMEOUT_MS = 5_000;
/**
 * The previous version works with the schema after such a file. The file is recorded in a table that the previous version does
 * not read, because a version refuses to start when it finds an unknown migration, and then a deploy could not be rolled back.
 */
const ADDITIVE = '.additive.sql';
/** Key of the advisory lock under which processes migrate one at a time: a number that no other program uses. */
const ADVISORY_LOCK = 4_242_017_001;

/** How often a start that waits for its turn asks again. */
const TURN_RETRY_MS = 500;
/** Waiting is reported after two seconds only: processes often start together. */
const TRIES_BEFORE_NOTICE = 4;
const TURN_QUERY_TIMEOUT_MS = 5_000;

/**
 * While an ALTER waits for its lock, every later statement on that table waits behind it. This limit is below the statement
 * time-out of payments, so that processes of the previous version continue to serve.
 */
const LOCK_TIMEOUT_MS = 1_000;
/** Pause between two tries, in which the waiting statements run. */
const LOCK_RETRY_MS = 4_000;
/** About a minute. */
const LOCK_TRIES_PER_NOTICE = 12;
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Brings the schema `idempay` up to date: `NNNN_slug.sql` files in order, each in one transaction, forward only. While
 * another process migrates it waits for its turn, and while another session (such as pg_dump) holds a lock in its way it
 * tries again, each for as long as that takes. `onWait` is called with a sentence about the wait.
 */
export async function migrate(
  databaseUrl: string,
  onWait: (sentence: string) => void = () => {},
  folder: URL = MIGRATIONS,
): Promise<void> {
  const files = migrationsIn(folder);
  // A connection of its own, without the pool's time limits: a migration takes as long as it takes.
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on('error', () => {});
  try {
    await client.connect();
    await takeTurn(client, onWait);
    await applyMissing(client, folder, files, onWait);
  } finally {
    // Ends the turn too.
    await client.end().catch(() => {});
  }
}

/** The names of the files, in their order. */
export function migrationsIn(folder: URL = MIGRATIONS): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort();
}

/** Polls for the lock instead of waiting in one query, so that a lost connection is noticed. */
async function takeTurn(client: Client, onWait: (sentence: string) => void): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const question = {
      text: 'SELECT pg_try_advisory_lock($1) AS taken',
      values: [ADVISORY_LOCK],
      query_timeout: TURN_QUERY_TIMEOUT_MS,
    };
    const { rows } = await client.query<{ taken: boolean }>(question);
    if (rows[0]?.taken) return;
    if (tries === TRIES_BEFORE_NOTICE) onWait('Another process migrates the database; the start waits for its turn.');
    await delay(TURN_RETRY_MS);
  }
}

async function applyMissing(
  client: Client,
  folder: URL,
  files: readonly string[],
  onWait: (sentence: string) => void,
): Promise<void> {
  // Asked first, because the right to create schemas is needed only where the schema is not there yet.
  const { rowCount } = await client.query("SELECT FROM pg_namespace WHERE nspname = 'idempay'");
  if (rowCount === 0) await client.query('CREATE SCHEMA IF NOT EXISTS idempay');
  const migrations = await namesIn(client, 'migrations');
  if (migrations.some((name) => !files.includes(name))) {
    throw new CannotOpen('The database was migrated by a newer version of Idempay. Start that version.');
  }
  const applied = new Set([...migrations, ...(await namesIn(client, 'additive_migrations'))]);
  for (const file of files) {
    if (!applied.has(file)) await applyWhenFree(client, folder, file, onWait);
  }
}

type Register = 'migrations' | 'additive_migrations';

async function namesIn(client: Client, register: Register): Promise<string[]> {
  await client.query(
    `CREATE TABLE IF NOT EXISTS idempay.${register} (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  const { rows } = await client.query<{ name: string }>(`SELECT name FROM idempay.${register}`);
  return rows.map((row) => row.name);
}

async function applyWhenFree(
  client: Client,
  folder: URL,
  file: string,
  onWait: (sentence: string) => void,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await apply(client, folder, file);
    } catch (error) {
      if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error;
    }
    if (tries % LOCK_TRIES_PER_NOTICE === 0) {
      onWait(
        `Another session (a backup or a long transaction) locks a table that the migration ${file} changes; it is tried again until it succeeds.`,
      );
    }
    await delay(LOCK_RETRY_MS);
  }
}

async function apply(client: Client, folder: URL, file: string): Promise<void> {
  await client.query('BEGIN');
  try {
    // A limit that an operator set for the user of the service (`docs/deployment.md`) is not made for it.
    await client.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; SET LOCAL statement_timeout = 0`);
    await client.query(readFileSync(new URL(file, folder), 'utf8'));
    const register: Register = file.endsWith(ADDITIVE) ? 'additive_migrations' : 'migrations';
    await client.query(`INSERT INTO idempay.${register} (name) VALUES ($1)`, [file]);
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
  const { command } = await client.query('COMMIT');
  // The COMMIT of an aborted transaction succeeds, with this tag.
  if (command === 'ROLLBACK') throw new CannotOpen(`The migration ${file} was rolled back.`);
}
