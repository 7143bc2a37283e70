import { readdirSync, readFileSync } from 'node:fs';
import type { PoolClient } from 'pg';
import { CannotOpen } from '../deployment.js';
import { type Postgres, release } from './postgres.js';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
/** Any number nobody else uses: the processes that start at once take turns on it. */
const ADVISORY_LOCK = 4_242_017_001;

/** Brings the schema `idempay` up to date: `NNNN_slug.sql` files in order, each in one transaction, forward only. */
export async function migrate(database: Postgres): Promise<void> {
  const files = readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .sort();
  const client = await database.connect();
  try {
    await client.query('SET lock_timeout = 0; SET statement_timeout = 0');
    await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCK]);
    await applyMissing(client, files);
    await client.query('SELECT pg_advisory_unlock($1)', [ADVISORY_LOCK]);
  } finally {
    // Its settings and perhaps its lock are its own: this connection is not for the pool.
    release(client, true);
  }
}

async function applyMissing(client: PoolClient, files: readonly string[]): Promise<void> {
  await client.query('CREATE SCHEMA IF NOT EXISTS idempay');
  await client.query(
    'CREATE TABLE IF NOT EXISTS idempay.migrations (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
  );
  const { rows } = await client.query<{ name: string }>('SELECT name FROM idempay.migrations');
  const applied = new Set(rows.map((row) => row.name));
  if ([...applied].some((name) => !files.includes(name))) {
    throw new CannotOpen('The database was migrated by a newer version of Idempay. Start that version.');
  }
  for (const file of files) {
    if (!applied.has(file)) await apply(client, file);
  }
}

async function apply(client: PoolClient, file: string): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(readFileSync(new URL(file, MIGRATIONS), 'utf8'));
    await client.query('INSERT INTO idempay.migrations (name) VALUES ($1)', [file]);
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
  const { command } = await client.query('COMMIT');
  // The COMMIT of an aborted transaction succeeds, with this tag.
  if (command === 'ROLLBACK') throw new CannotOpen(`The migration ${file} was rolled back.`);
}
