import type { Finding } from '../../platform/finding.js';
import { CannotOpen } from './deployment.js';
import type { Migration } from './migrations.js';

/** A schema next to the files of this version. */
export interface FoundSchema {
  /** The files that are still to be applied, in order. */
  readonly pending: readonly Migration[];
  /** The sign that another version made it, if there is one. */
  readonly foreign: string | undefined;
}

/** Throws CannotOpen if another version made the schema. `advice`: what the operator may do instead of starting that version. */
export function refuseForeign({ foreign }: FoundSchema, what: string, advice: string): void {
  if (foreign === undefined) return;
  throw new CannotOpen(
    `${what} was made by another version of Idempay (${foreign}), and nothing in it was changed. Start that version, or ${advice}.`,
  );
}

/** `read` changes nothing, and resolves to nothing if there is no database. */
export async function examineSchema(
  store: string,
  read: () => FoundSchema | undefined | Promise<FoundSchema | undefined>,
): Promise<Finding> {
  const row = {
    what: `${store} schema`,
    wanted: 'that of this version',
    why: 'a start applies what is pending, and refuses a schema of another version',
  };
  try {
    const schema = await read();
    if (!schema) return { ...row, verdict: 'ok', found: 'none yet: the first start makes it' };
    const { pending, foreign } = schema;
    if (foreign !== undefined) return { ...row, verdict: 'wrong', found: `of another version: ${foreign}` };
    const found =
      pending.length > 0 ? `pending: ${pending.map(({ name }) => name).join(', ')}` : 'that of this version';
    return { ...row, verdict: 'ok', found };
  } catch (error) {
    const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message: string };
    // A fault of SQLite, or insufficient privilege in PostgreSQL.
    if (errcode === undefined && code !== '42501') throw error;
    return { ...row, verdict: 'wrong', found: `cannot be read: ${message}` };
  }
}
