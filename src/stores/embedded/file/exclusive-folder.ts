import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { createPrivate, FOLDER_MODE, syncPath } from '../../../platform/private-files.js';
import { CannotOpen } from '../../shared/deployment.js';
import type { CommitMark } from './last-commit.js';
import { faultOf } from './sqlite.js';

const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
export const DATABASE = 'idempay.sqlite';
const LOCK = 'lock.sqlite';

/**
 * The lock of this connection outlives its commits. A commit is one write of a page in place, to be had at any moment of a
 * kill: without a journal on the disk, and without a sync.
 */
const SETTINGS = 'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS last_commit (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), incarnation TEXT NOT NULL, number INTEGER NOT NULL, clock_ms INTEGER NOT NULL
  ) STRICT`;

const READ = 'SELECT incarnation, number, clock_ms FROM last_commit';
const WRITE = 'INSERT OR REPLACE INTO last_commit VALUES (1, ?, ?, ?)';

/**
 * The longest time for which the last mark may be only in the memory of the operating system. A kill of the process loses no mark, and a
 * power cut loses at most the marks of this time. Then only one copy is not noticed: it was made in this time before the cut, and is
 * restored before the next start.
 */
const SYNC_EVERY_MS = 1_000;

export interface ExclusiveFolder {
  /** The mark of the last commit of the database that this folder had; undefined if there was none. */
  readonly remembered: CommitMark | undefined;
  /**
   * Called within each transaction of the database. Throws an error that breaks the store if the lock's file was removed or replaced,
   * because another process may hold the new one. It took that before its first transaction, so no commit of this process can follow one of
   * that process.
   */
  assertHeld(): void;
  /** Called after each commit of the database, so what is remembered is never ahead of what is on the disk. */
  remember(mark: CommitMark): void;
  /** Puts what is remembered on the disk, if the last time is `SYNC_EVERY_MS` ago, or `always`. */
  sync(always?: 'always'): void;
  release(): void;
}

/**
 * Takes the folder for this process alone: `lock.sqlite` is held in exclusive mode until `release`. The lock is the kernel's,
 * so it ends with the process however that ends, and no stale lock file can remain.
 * A folder that is not there is made, closed to other users; the mode of one that is there is the operator's.
 * Throws CannotOpen when another process holds it, or the folder cannot be used.
 */
export function takeExclusively(folder: string): ExclusiveFolder {
  try {
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
    const path = join(folder, LOCK);
    createPrivate(path);
    const file = statSync(path);
    const lock = new DatabaseSync(path, { timeout: 0 });
    lock.exec(`${SETTINGS}; BEGIN EXCLUSIVE; ${SCHEMA}; COMMIT`);
    const isHeld = () => isThere(path, file);
    if (!isHeld()) throw lostLock(path);
    // A power cut must not remove the file while the database has commits.
    syncPath(folder);
    return holdFolder(lock, path, isHeld);
  } catch (error) {
    const code = (error as { errcode?: number }).errcode;
    if (code === SQLITE_BUSY && !canLockIn(folder)) {
      const message = `DATA_DIR ${folder} is on a file system that gives no locks, so no process can have it alone. Set it to a folder on a local disk.`;
      throw new CannotOpen(message, { cause: error });
    }
    const message =
      code === SQLITE_BUSY
        ? `DATA_DIR ${folder} is in use by another Idempay process. Stop that one, or set another DATA_DIR.`
        : `DATA_DIR ${folder} cannot be used: ${(error as Error).message}. It must be a folder this process may write to.`;
    throw new CannotOpen(message, { cause: error });
  }
}

/** True if a file that no other process has can be locked: SQLite reports a file system without locks (ENOLCK) as busy. */
export function canLockIn(folder: string): boolean {
  const path = join(folder, `lock-trial-${randomUUID()}.sqlite`);
  createPrivate(path);
  const trial = new DatabaseSync(path, { timeout: 0 });
  try {
    trial.exec('BEGIN EXCLUSIVE; ROLLBACK');
    return true;
  } catch (error) {
    if (faultOf(error) === 'busy') return false;
    throw error;
  } finally {
    trial.close();
    rmSync(path, { force: true });
  }
}

/** The kernel's lock is on the file, not on its name. A file that this process has open keeps its number. */
function isThere(path: string, { ino, dev }: Stats): boolean {
  const now = statSync(path, { throwIfNoEntry: false });
  return now?.ino === ino && now.dev === dev;
}

const lostLock = (path: string) =>
  Object.assign(
    new Error(`${path} was removed or replaced while this process held it, so another one may use the folder`),
    { errcode: SQLITE_IOERR },
  );

function holdFolder(lock: InstanceType<typeof DatabaseSync>, path: string, isHeld: () => boolean): ExclusiveFolder {
  const row = lock.prepare(READ).get() as { incarnation: string; number: number; clock_ms: number } | undefined;
  const write = lock.prepare(WRITE);
  let last: CommitMark | undefined;
  let isSynced = true;
  let syncedAt = performance.now();

  function writeLast({ incarnation, number, clockMs }: CommitMark): void {
    try {
      write.run(incarnation, number, clockMs);
    } catch (error) {
      const fault = faultOf(error);
      // The next commit writes it.
      if (fault === 'full' || fault === 'busy') return;
      // Whatever it is: the commit is on the disk, and must not be run again as a refused one would be.
      throw Object.assign(new Error(`${LOCK} could not be written`, { cause: error }), { errcode: SQLITE_IOERR });
    }
  }

  function sync(always?: 'always'): void {
    if (!last || isSynced || (!always && performance.now() - syncedAt < SYNC_EVERY_MS)) return;
    lock.exec('PRAGMA synchronous = FULL');
    writeLast(last);
    lock.exec('PRAGMA synchronous = OFF');
    isSynced = true;
    syncedAt = performance.now();
  }

  return {
    remembered: row && { incarnation: row.incarnation, number: row.number, clockMs: row.clock_ms },
    assertHeld() {
      if (!isHeld()) throw lostLock(path);
    },
    remember(mark) {
      last = mark;
      isSynced = false;
      writeLast(mark);
    },
    sync,
    release() {
      try {
        // SQLite refuses to write a file that has lost its name.
        if (!isHeld()) return;
        sync('always');
        // The connection may be closed only when its statements are collected: the lock ends now.
        lock.exec(`PRAGMA locking_mode = NORMAL; ${READ}`);
      } finally {
        lock.close();
      }
    },
  };
}
