import type { Client } from 'pg';
import { type Finding, verdictOf } from '../platform/finding.js';
import { readSchema } from '../stores/postgres/migrate.js';
import { CLOSED_TABLES } from '../stores/postgres/start.js';

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

const SCHEMA = {
  what: 'PostgreSQL schema',
  wanted: 'that of this version',
  why: 'a start applies what is pending, and refuses a schema of another version',
} as const;

/** Compares the schema with the files of this version. Changes nothing. */
export async function examineSchema(client: Client): Promise<Finding> {
  try {
    const { pending, foreign } = await readSchema(client);
    if (foreign !== undefined) return { ...SCHEMA, found: `of another version: ${foreign}`, verdict: 'wrong' };
    const found = pending.length > 0 ? `pending: ${pending.join(', ')}` : 'that of this version';
    return { ...SCHEMA, found, verdict: 'ok' };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { ...SCHEMA, found: `cannot be read: ${(error as Error).message}`, verdict: 'wrong' };
  }
}

/** 42501, insufficient privilege. */
function isRefusal(error: unknown): boolean {
  return (error as { code?: unknown }).code === '42501';
}
