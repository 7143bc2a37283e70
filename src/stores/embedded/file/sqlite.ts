import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { StoreUnavailable } from '../../../platform/faults.js';
import { CannotOpen } from '../../shared/deployment.js';

/** The API of `node:sqlite`, so the day Node 20 is dropped this import is what changes. */
export type Database = InstanceType<typeof DatabaseSync>;

/** Older versions can lose a committed write when the WAL file is reset. */
export const LEAST_SQLITE_VERSION = [3, 51, 3] as const;
/** Readers never block the writer in WAL mode; what is left to wait for (a checkpoint, recovery, another program) is short. */
export const BUSY_TIMEOUT_MS = 5_000;
/** A look at a database that others may use waits for a lock at most this long. */
const LOOK_TIMEOUT_MS = 1_000;
const WRITER_CACHE_KIB = 65_536;
/** The log is cut to this size after it was moved into the file. Usually it has 4 MB; while an old snapshot is read it grows. */
const MOST_IDLE_WAL_BYTES = 67_108_864;
const READER_CACHE_KIB = 8_192;
/** A list reads each page of the file once; the caches of all snapshots together must not be large. */
const LIST_CACHE_KIB = 2_048;

/** SQLITE_IOERR_SHMOPEN, SHMLOCK and SHMMAP: their text is "disk I/O error" only. SHMSIZE is a full disk. */
const NO_SHARED_MEMORY = new Set([4618, 5130, 5386]);

/** `PRAGMA synchronous` as SQLite reports it: FULL means that a commit is on the disk before it returns. */
const SYNCHRONOUS_FULL = 2;

export function openForWriting(path: string): Database {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -${WRITER_CACHE_KIB}`);
    // The first read opens the shared memory.
    database.exec('PRAGMA user_version');
  } catch (error) {
    database.close();
    if (!NO_SHARED_MEMORY.has((error as { errcode?: number }).errcode ?? 0)) throw error;
    const message = `${path} is on a file system without shared memory (mmap), which SQLite needs. Set DATA_DIR to a folder on a local disk.`;
    throw new CannotOpen(message, { cause: error });
  }
  database.exec(`PRAGMA journal_size_limit = ${MOST_IDLE_WAL_BYTES}`);
  // Erased content is overwritten if that costs no more writes (see `payment-sources.ts`).
  database.exec('PRAGMA secure_delete = FAST');
  assertVersion(database);
  return database;
}

/** Opens a file that no other process has open, without a log: every commit goes into the file itself. */
export function openAlone(path: string): Database {
  const database = new DatabaseSync(path);
  database.exec('PRAGMA synchronous = FULL');
  return database;
}

export function openForReading(path: string, cacheKib = READER_CACHE_KIB): Database {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, readOnly: true });
  database.exec(`PRAGMA cache_size = -${cacheKib}`);
  return database;
}

export function openForLists(path: string): Database {
  return openForReading(path, LIST_CACHE_KIB);
}

/**
 * Reading a database that no process has open would create files next to it that belong to this user, and that the service may not
 * be able to write. So it is opened as immutable. If a service runs, or was killed, these files exist already.
 */
export function openUnchanged(path: string): Database {
  const url = pathToFileURL(path);
  if (!existsSync(`${path}-shm`)) url.searchParams.set('immutable', '1');
  return new DatabaseSync(url, { readOnly: true, timeout: LOOK_TIMEOUT_MS });
}

/** Called after a write: some bindings silently fall back to NORMAL, and then a power cut can undo commits. */
export function assertDurable(database: Database): void {
  const { synchronous } = database.prepare('PRAGMA synchronous').get() as { synchronous: number };
  const { journal_mode } = database.prepare('PRAGMA journal_mode').get() as { journal_mode: string };
  if (synchronous !== SYNCHRONOUS_FULL || journal_mode !== 'wal') {
    throw new CannotOpen(`SQLite does not keep commits durable here (synchronous ${synchronous}, ${journal_mode}).`);
  }
}

export function sqliteVersion(database: Database): string {
  return (database.prepare('SELECT sqlite_version() AS version').get() as { version: string }).version;
}

export function isSqliteTooOld(version: string): boolean {
  const parts = version.split('.').map(Number);
  for (const [index, least] of LEAST_SQLITE_VERSION.entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) return part < least;
  }
  return false;
}

function assertVersion(database: Database): void {
  const version = sqliteVersion(database);
  if (isSqliteTooOld(version)) {
    throw new CannotOpen(`SQLite ${version} is too old: at least ${LEAST_SQLITE_VERSION.join('.')} is needed.`);
  }
}

export type SqliteFault =
  /** Surely rolled back; the store works on and takes writes again once there is room. */
  | 'full'
  /** Surely rolled back, because another program holds the lock of the database file. */
  | 'busy'
  /** The disk or the file can no longer be trusted. */
  | 'broken'
  /** The statement itself was refused, for example by a constraint; others may be fine. */
  | 'refused';

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;
/** SQLITE_IOERR_SHMSIZE: the WAL's index file could not grow, which is a full disk too. */
const SQLITE_IOERR_SHMSIZE = 4874;
/** Statements that were wrong, constraints, limits: the database itself is fine. */
const REFUSALS = new Set([1, 18, 19, 20, 25]);

/** The meaning for the store of an exception of the SQLite binding. */
export function faultOf(error: unknown): SqliteFault {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  if (typeof code !== 'number') return 'refused';
  if (code === SQLITE_FULL || code === SQLITE_IOERR_SHMSIZE) return 'full';
  if ((code & 0xff) === SQLITE_BUSY) return 'busy';
  return REFUSALS.has(code & 0xff) ? 'refused' : 'broken';
}

/** Runs a read on the main thread's connection; a file that can no longer be read is reported as broken. */
export function readOrReport<T>(read: () => T, onBroken: (error: Error) => void): T {
  try {
    return read();
  } catch (error) {
    const fault = faultOf(error);
    if (fault === 'refused') throw error;
    const unavailable = new StoreUnavailable('unchanged', 'the database could not be read', error);
    if (fault === 'broken') onBroken(unavailable);
    throw unavailable;
  }
}
