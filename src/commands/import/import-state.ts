import { createHash } from 'node:crypto';
import { DatabaseSync } from '@photostructure/sqlite';
import { createPrivate } from '../../deployments/embedded/private-file.js';
import { UsageError } from '../usage.js';

const SQLITE_BUSY = 5;
const SQLITE_NOTADB = 26;

/** How the input is read. It must not change after a crash, because the same bytes would then give other rows. */
export interface Reading {
  readonly format: 'csv' | 'ndjson';
  readonly delimiter: string;
  readonly ignored: readonly string[];
}

/** Where and as whom it creates; keys mean something only there. */
export interface Target {
  readonly url: string;
  /** A digest of the credential; empty without one. */
  readonly credential: string;
}

/** A row that the service refused in a batch that created nothing. */
export interface RefusedRow {
  readonly line: number;
  readonly reason: string;
}

/** A batch that may have been sent. */
export interface PendingBatch {
  /** Of the import: each content that is sent has its own. The key is derived from it. */
  readonly sequence: number;
  /** The place of the byte after its last row. */
  readonly end: number;
  readonly rows: number;
  /** Left out of what is sent. */
  readonly refused: readonly RefusedRow[];
  /** Milliseconds since the epoch, by this machine, before it was sent for the first time. */
  readonly sentAt: number;
}

/** Everything before `offset` is done. */
export interface ImportState {
  readonly importId: string;
  readonly reading: Reading;
  readonly target: Target;
  readonly columns: readonly string[] | undefined;
  readonly offset: number;
  /** The number of the line at `offset`. */
  readonly line: number;
  readonly created: number;
  readonly rejected: number;
  /** Length of the file of rejected rows for the input up to `offset`. */
  readonly rejectedBytes: number;
  /** Its absolute path: no other file is cut or written to. */
  readonly rejectedFile: string;
  readonly nextSequence: number;
  /** Of the batch that was created last; undefined before the first one. */
  readonly createdSequence: number | undefined;
  readonly pending: PendingBatch | undefined;
  /** SHA-256 of the input up to the end of the pending batch, or else up to `offset`. */
  readonly digest: string;
  readonly finishedAt: string | undefined;
}

/** The state of one import, kept beside its input. */
export interface StateFile {
  read(): ImportState | undefined;
  /** Durable when it returns, whole or not at all. */
  save(state: ImportState): void;
  close(): void;
}

/**
 * The key of a batch: the same for the same batch after a crash, and for nothing else. 43 characters, as the service takes at most 64.
 */
export function batchKey(importId: string, sequence: number): string {
  return createHash('sha256').update(`${importId}/${sequence}`).digest('base64url');
}

/**
 * SQLite writes atomically and durably, and holds a lock that the kernel removes with the process: of two imports of the same file the
 * second one is refused. Throws UsageError for that, and for a file that is something else.
 */
export function openStateFile(path: string): StateFile {
  createPrivate(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = EXTRA');
    database.exec(
      'BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS import (id INTEGER PRIMARY KEY, state TEXT NOT NULL); COMMIT',
    );
  } catch (error) {
    database.close();
    const { errcode, message } = error as { errcode?: number; message: string };
    if (errcode === SQLITE_BUSY) throw new UsageError(`Another command imports with ${path}. Wait for its end.`);
    const what = errcode === SQLITE_NOTADB ? 'is no state of an import' : `cannot be used: ${message}`;
    throw new UsageError(`${path} ${what}. Name another file with --state.`);
  }
  const reading = database.prepare('SELECT state FROM import WHERE id = 1');
  const saving = database.prepare(
    'INSERT INTO import (id, state) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state',
  );
  return {
    read() {
      const row = reading.get() as { state: string } | undefined;
      return row && (JSON.parse(row.state) as ImportState);
    },
    save: (state) => void saving.run(JSON.stringify(state)),
    close() {
      // The connection lives on until its statements are collected: the lock goes with the next read.
      database.exec('PRAGMA locking_mode = NORMAL');
      reading.get();
      database.close();
    },
  };
}

/** Of an import that cannot go on after its end, such as one from standard input without `--state`. */
export function stateInMemory(): StateFile {
  let kept: ImportState | undefined;
  return {
    read: () => kept,
    save(state) {
      kept = state;
    },
    close() {},
  };
}
