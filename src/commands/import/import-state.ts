import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { DatabaseSync } from '@photostructure/sqlite';
import { UsageError } from '#idempay/cli/usage.js';
import { createPrivate } from '../../platform/private-files.js';

const SQLITE_BUSY = 5;
const SQLITE_NOTADB = 26;

/** How the input is read. It must not change after a crash, because the same bytes would then give other batches. */
export interface Reading {
  readonly format: 'csv' | 'ndjson';
  readonly delimiter: string;
  readonly ignored: readonly string[];
  readonly batchRows: number;
}

/** The service and the client for which it creates; keys mean something only there. */
export interface Target {
  readonly url: string;
  /** A digest of the credential; empty without one. */
  readonly credential: string;
}

export interface ImportState {
  /** Random, so that the same rows can be imported again on purpose. Keys are computed from it. */
  readonly importId: string;
  /** SHA-256 of the whole input. */
  readonly digest: string;
  readonly reading: Reading;
  readonly target: Target;
  /** The place where a batch begins: everything before it is created, and nothing after that batch was ever sent. */
  readonly offset: number;
  /** Milliseconds since the epoch, by this machine, before that batch was sent for the first time. Undefined if it was not sent. */
  readonly sentAt: number | undefined;
  readonly finished: { readonly at: string; readonly created: number; readonly rejected: number } | undefined;
}

/** The state of one import, kept next to its input. */
export interface StateFile {
  read(): ImportState | undefined;
  /** Durable when it returns, whole or not at all. */
  save(state: ImportState): void;
  close(): void;
}

/** The key of the batch that begins there. 43 characters, as the service takes at most 64. */
export function batchKey(importId: string, offset: number): string {
  return createHash('sha256').update(`${importId}/${offset}`).digest('base64url');
}

/**
 * SQLite writes atomically and durably, and holds a lock that the kernel removes with the process: of two imports of the same file the
 * second one is refused. Throws UsageError for that, and for a path that is something else. A symbolic link is not followed: its author may
 * want another file to be overwritten.
 */
export function openStateFile(path: string): StateFile {
  try {
    createPrivate(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(
      `${path} cannot be written (${code}), and the state of the import is kept there. Name another file with --state.`,
    );
  }
  if (!lstatSync(path).isFile()) {
    throw new UsageError(
      `${path} is a link or no file, and no state is written there. Name another file with --state.`,
    );
  }
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
