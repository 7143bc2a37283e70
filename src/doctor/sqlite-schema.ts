import { existsSync } from 'node:fs';
import type { Finding } from '../platform/finding.js';
import { readSchema } from '../stores/embedded/migrate.js';
import { openUnchanged } from '../stores/embedded/sqlite.js';

const SCHEMA = {
  what: 'SQLite schema',
  wanted: 'that of this version',
  why: 'a start applies what is pending, and refuses a schema of another version',
} as const;

/** Compares the database with the files of this version. Changes nothing. */
export function examineSchema(path: string): Finding {
  if (!existsSync(path)) return { ...SCHEMA, found: 'none yet: the first start makes it', verdict: 'ok' };
  try {
    const database = openUnchanged(path);
    try {
      const { pending, foreign } = readSchema(database);
      if (foreign !== undefined) return { ...SCHEMA, found: `of another version: ${foreign}`, verdict: 'wrong' };
      const found = pending.length > 0 ? `pending: ${pending.join(', ')}` : 'that of this version';
      return { ...SCHEMA, found, verdict: 'ok' };
    } finally {
      database.close();
    }
  } catch (error) {
    return { ...SCHEMA, found: `cannot be read: ${(error as Error).message}`, verdict: 'wrong' };
  }
}
