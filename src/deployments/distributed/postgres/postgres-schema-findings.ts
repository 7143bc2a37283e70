import type { Client } from 'pg';
import { type Finding, verdictOf } from '../../../health/finding.js';
import { migrationsIn } from './migrate.js';
import { CLOSED_TABLES } from './postgres-start.js';

/** The first row of the answer. */
export type Ask = (text: string) => Promise<Record<string, unknown>>;

const RIGHTS = {
  what: 'PostgreSQL rights',
  wanted: 'reads and writes the schema idempay',
  why: 'without them every payment is refused; the owner of the schema has them',
} as const;

/** Whether the user may make the schema, or use what is in it. */
export async function examineRights(ask: Ask): Promise<Finding> {
  const database = await ask(`SELECT has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
    to_regnamespace('idempay') IS NOT NULL AS "isThere",
    coalesce(has_schema_privilege(to_regnamespace('idempay'), 'USAGE'), false) AS "mayUse"`);
  if (database.isThere !== true) {
    const found = `no schema yet; this user may ${database.mayCreate === true ? '' : 'not '}create it`;
    return { ...RIGHTS, found, verdict: verdictOf(database.mayCreate !== true) };
  }
  if (database.mayUse !== true) return { ...RIGHTS, found: 'this user may not use the schema', verdict: 'wrong' };
  const names = String((await ask(CLOSED_TABLES.text)).names);
  return { ...RIGHTS, found: names === '' ? 'all' : `closed: ${names}`, verdict: verdictOf(names !== '') };
}

const MIGRATIONS = {
  what: 'PostgreSQL migrations',
  wanted: 'none that this version does not know',
  why: 'a start migrates what is pending, and refuses a schema of a newer version',
} as const;

/** Compares the schema with the files of this version. Nothing is migrated. */
export async function examineMigrations(client: Client): Promise<Finding> {
  try {
    const files = migrationsIn();
    const blocking = await namesIn(client, 'migrations');
    const additive = await namesIn(client, 'additive_migrations');
    const unknown = blocking.filter((name) => !files.includes(name));
    const pending = files.filter((name) => !blocking.includes(name) && !additive.includes(name));
    if (unknown.length > 0)
      return { ...MIGRATIONS, found: `of a newer version: ${unknown.join(', ')}`, verdict: 'wrong' };
    if (blocking.length === 0)
      return { ...MIGRATIONS, found: 'none yet: the first start makes the schema', verdict: 'ok' };
    if (pending.length > 0) return { ...MIGRATIONS, found: `pending: ${pending.join(', ')}`, verdict: 'warning' };
    return { ...MIGRATIONS, found: `all ${files.length}`, verdict: 'ok' };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { ...MIGRATIONS, found: `cannot be read: ${(error as Error).message}`, verdict: 'wrong' };
  }
}

async function namesIn(client: Client, register: 'migrations' | 'additive_migrations'): Promise<string[]> {
  const table = await client.query(
    `SELECT FROM pg_class WHERE relname = $1 AND relnamespace = to_regnamespace('idempay')`,
    [register],
  );
  if (table.rowCount === 0) return [];
  const { rows } = await client.query<{ name: string }>(`SELECT name FROM idempay.${register}`);
  return rows.map(({ name }) => name);
}

/** 42501, insufficient privilege. */
function isRefusal(error: unknown): boolean {
  return (error as { code?: unknown }).code === '42501';
}
