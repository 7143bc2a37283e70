import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError } from 'pg';
import { reasonOf } from '../../../platform/faults.js';
import { warningsIn } from '../../../platform/finding.js';
import { certificateAdvice, isCertificateFault } from '../../../platform/tls-fault.js';
import { CannotOpen } from '../../shared/deployment.js';
import { type Ask, examineRights, judgeDurability, RIGHTS_ADVICE, SETTINGS } from './checks.js';
import { type Postgres, StandbyRefused } from './postgres.js';

const TRY_AGAIN_MS = 500;
/** A failover makes a standby the primary within this time; after it a standby is a wrong setting, if the address names no other host. */
const STANDBY_PATIENCE_MS = 3_000;
/** Several hosts fail for different reasons in turn, and the operator needs each of them once. A reason may have a text that changes each time. */
const MAX_REPORTS = 10;

/**
 * Runs `open` until it succeeds. While PostgreSQL is down it is tried again, for as long as it takes, and `onDown` is called for
 * each reason once. Throws CannotOpen, at once, when PostgreSQL is there and `DATABASE_URL` cannot be right.
 */
export async function untilPostgresIsThere<Result>(
  open: () => Promise<Result>,
  onDown: (sentence: string, cause: Error) => void,
): Promise<Result> {
  const startedAt = performance.now();
  const reported = new Set<string>();
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (error instanceof CannotOpen) throw error;
      const cause = rootOf(error);
      const isPatient = cause instanceof StandbyRefused && performance.now() - startedAt < STANDBY_PATIENCE_MS;
      if (!isPatient && !isDown(cause)) {
        const sentence = `DATABASE_URL: PostgreSQL cannot be used: ${cause.message}. ${adviceFor(cause)}`;
        throw new CannotOpen(sentence, { cause: error });
      }
      if (!isPatient && !reported.has(cause.message) && reported.size < MAX_REPORTS) {
        reported.add(cause.message);
        onDown('DATABASE_URL: PostgreSQL cannot be reached; the start waits until it can', cause);
      }
    }
    await delay(TRY_AGAIN_MS);
  }
}

/** Once the schema is there: one that another role migrated may be open to us and its tables closed. Throws CannotOpen then. */
export async function refuseMissingRights(database: Postgres): Promise<void> {
  const ask: Ask = async (statement) => (await database.read(statement))[0] ?? {};
  const { found, advice } = await examineRights({ ask });
  if (advice) throw new CannotOpen(`DATABASE_URL: PostgreSQL cannot be used: ${found}. ${advice}.`);
}

export async function warnOfLostCommits(database: Postgres, warn: (sentence: string) => void): Promise<void> {
  const [settings = {}] = await database.read(SETTINGS);
  for (const sentence of warningsIn(judgeDurability({ settings }))) warn(sentence);
}

/** Errors of the operating system and of name resolution. ENOENT: the server has not made its socket file yet. */
const DOWN_CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT'],
]);
/** SQLSTATE: connection lost, rolled back, too few resources, stopping or starting (57P03), system or internal error. */
const DOWN_STATES = /^(08|40|53|57|58|XX)...$/;
/** The driver's own words, which have no code. */
const DOWN_WORDS = /timeout|terminated|connection error/i;

function isDown(cause: Error): boolean {
  if (cause instanceof StandbyRefused) return cause.hostCount > 1;
  const code = codeOf(cause);
  if (code === undefined) return DOWN_WORDS.test(cause.message);
  // ENOENT of a certificate file is a wrong setting; only a missing socket file (`connect`) may appear later.
  if (code === 'ENOENT' && (cause as NodeJS.ErrnoException).syscall !== 'connect') return false;
  return DOWN_CODES.has(code) || DOWN_STATES.test(code);
}

const GENERAL_ADVICE = 'Correct DATABASE_URL, or the server that it names.';
/** Advice by SQLSTATE. */
const ADVICE: Readonly<Record<string, string>> = {
  '28P01':
    'Set the user and the password that the server knows, percent-encoded: postgres://user:password@host/database.',
  '28000':
    'The server refuses this user, or a connection without TLS: correct the user, or add ?sslmode=verify-full, or allow it in pg_hba.conf.',
  '3D000': 'Create the database, or name another one at the end of DATABASE_URL.',
  '42501': `${RIGHTS_ADVICE}.`,
  '25006': 'The user or the database is set to read only (default_transaction_read_only): turn that off.',
};

/** SQLSTATE: the server refuses a row for its values, which is a fault of the program that sends it. */
const REFUSED_VALUES = /^2[23]...$/;

/** True if DATABASE_URL, its server or the way to it may be the reason, so that the same may work later. */
export function isPostgresFault(error: unknown): boolean {
  const cause = rootOf(error);
  if (cause instanceof DatabaseError) return !REFUSED_VALUES.test(cause.code ?? '');
  return isDown(cause) || adviceFor(cause) !== GENERAL_ADVICE;
}

/** Why the server cannot be used, and what to do. */
export function wordsFor(error: unknown): string {
  const cause = rootOf(error);
  return isDown(cause) ? reasonOf(cause) : `${cause.message}. ${adviceFor(cause)}`;
}

function adviceFor(cause: Error): string {
  const advice = ADVICE[codeOf(cause) ?? ''];
  if (advice) return advice;
  if (isCertificateFault(cause)) return certificateAdvice('DATABASE_CA_FILE');
  if (cause instanceof StandbyRefused) return 'Name the primary in DATABASE_URL.';
  if (/password/i.test(cause.message)) return 'Set a password: postgres://user:password@host/database.';
  if (/SSL/.test(cause.message)) return 'Turn TLS on at the server, or remove sslmode from DATABASE_URL.';
  return GENERAL_ADVICE;
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
