import { setTimeout as delay } from 'node:timers/promises';
import { reasonOf } from '../../platform/faults.js';
import { CannotOpen } from '../shared/deployment.js';
import { CERTIFICATE_ADVICE, isCertificateFault } from '../shared/tls-fault.js';
import { type Postgres, StandbyRefused, type Statement } from './postgres.js';

const TRY_AGAIN_MS = 500;
/** A failover makes a standby the primary within this time; after it a standby is a wrong setting. */
const STANDBY_PATIENCE_MS = 3_000;

/**
 * Runs `open` until it succeeds. While PostgreSQL is away it is tried again, for as long as it takes, and `onAway` is called for
 * it once. Throws CannotOpen, at once, when PostgreSQL is there and `DATABASE_URL` cannot be right.
 */
export async function untilPostgresIsThere(
  open: () => Promise<void>,
  onAway: (sentence: string, cause: Error) => void,
): Promise<void> {
  const startedAt = performance.now();
  let reported = false;
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (error instanceof CannotOpen) throw error;
      const cause = rootOf(error);
      const isPatient = cause instanceof StandbyRefused && performance.now() - startedAt < STANDBY_PATIENCE_MS;
      if (!isPatient && !isAway(cause)) {
        const sentence = `DATABASE_URL: PostgreSQL cannot be used: ${cause.message}. ${adviceFor(cause)}`;
        throw new CannotOpen(sentence, { cause: error });
      }
      if (!isPatient && !reported) {
        reported = true;
        onAway('DATABASE_URL: PostgreSQL cannot be reached; the start waits until it can', cause);
      }
    }
    await delay(TRY_AGAIN_MS);
  }
}

export const CLOSED_TABLES: Statement = {
  name: 'closed_tables',
  text: `SELECT coalesce(string_agg(relname, ', ' ORDER BY relname), '') AS names FROM pg_class
    WHERE relnamespace = 'idempay'::regnamespace AND relkind = 'r' AND NOT (
      has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
      AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))`,
};

/** A schema that another role migrated may be open to us and its tables closed: then every payment would be refused. */
export async function refuseMissingRights(database: Postgres): Promise<void> {
  const [row] = await database.read<{ names: string }>(CLOSED_TABLES);
  if (!row || row.names === '') return;
  throw new CannotOpen(
    `DATABASE_URL: PostgreSQL cannot be used: its user may not read and write ${row.names}. ${RIGHTS_ADVICE}`,
  );
}

/** Errors of the operating system and of name resolution. ENOENT: the server has not made its socket file yet. */
const AWAY_CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT'],
]);
/** SQLSTATE: connection lost, rolled back, too few resources, stopping or starting (57P03), system or internal error. */
const AWAY_STATES = /^(08|40|53|57|58|XX)...$/;
/** The driver's own words, which have no code. */
const AWAY_WORDS = /timeout|terminated/i;

function isAway(cause: Error): boolean {
  const code = codeOf(cause);
  if (code === undefined) return AWAY_WORDS.test(cause.message);
  // ENOENT of a certificate file is a wrong setting; only a missing socket file (`connect`) may appear later.
  if (code === 'ENOENT' && (cause as NodeJS.ErrnoException).syscall !== 'connect') return false;
  return AWAY_CODES.has(code) || AWAY_STATES.test(code);
}

const RIGHTS_ADVICE =
  'Let the user of DATABASE_URL own the schema idempay and what is in it, or name a user who does: it needs CREATE on the database where the schema is not there yet.';

/** What to do about an SQLSTATE. */
const ADVICE: Readonly<Record<string, string>> = {
  '28P01':
    'Set the user and the password that the server knows, percent-encoded: postgres://user:password@host/database.',
  '28000':
    'The server refuses this user, or a connection without TLS: correct the user, or add ?sslmode=verify-full, or allow it in pg_hba.conf.',
  '3D000': 'Create the database, or name another one at the end of DATABASE_URL.',
  '42501': RIGHTS_ADVICE,
  '25006': 'The user or the database is set to read only (default_transaction_read_only): turn that off.',
};

/** Why the server cannot be used, and what to do. */
export function wordsFor(error: unknown): string {
  const cause = rootOf(error);
  return isAway(cause) ? reasonOf(cause) : `${cause.message}. ${adviceFor(cause)}`;
}

function adviceFor(cause: Error): string {
  const advice = ADVICE[codeOf(cause) ?? ''];
  if (advice) return advice;
  if (isCertificateFault(cause)) return CERTIFICATE_ADVICE;
  if (cause instanceof StandbyRefused) return 'Name the primary in DATABASE_URL.';
  if (/password/i.test(cause.message)) return 'Set a password: postgres://user:password@host/database.';
  if (/SSL/.test(cause.message)) return 'Turn TLS on at the server, or remove sslmode from DATABASE_URL.';
  return 'Correct DATABASE_URL, or the server that it names.';
}

function codeOf(cause: Error): string | undefined {
  const { code } = cause as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}

/** The exception of the driver, beneath what we made of it. */
function rootOf(error: unknown): Error {
  const { cause } = error as { cause?: unknown };
  return cause instanceof Error ? rootOf(cause) : (error as Error);
}
