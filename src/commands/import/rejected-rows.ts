import { closeSync, constants, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { UsageError } from '#idempay/cli/usage.js';
import { syncFolderOf } from '../../platform/private-files.js';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants;

export interface RejectedRow {
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly reason: string;
  /** The row as it is; bytes that are no UTF-8 are replaced. */
  readonly row: string;
}

/** The file of rejected rows: one JSON document on each line. */
export interface RejectedRows {
  append(rows: readonly RejectedRow[]): void;
  /** Durable when it returns. */
  complete(): void;
  close(): void;
}

/**
 * Each run of an import writes all rejected rows, from the beginning; rows that are there already from an earlier run must be the same. So
 * nothing of another file is ever overwritten. The file is created with the first rejected row. Throws UsageError for other content, and
 * for a symbolic link.
 */
export function openRejectedRows(path: string): RejectedRows {
  let file = openKnown(path);
  let bytes = 0;

  return {
    append(rows) {
      if (rows.length === 0) return;
      file ??= openSync(path, O_RDWR | O_CREAT | O_EXCL, 0o600);
      const text = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
      const there = Buffer.alloc(text.length);
      const known = readSync(file, there, 0, text.length, bytes);
      if (!there.subarray(0, known).equals(text.subarray(0, known))) throw otherContent(path);
      for (let at = known; at < text.length; ) at += writeSync(file, text, at, text.length - at, bytes + at);
      bytes += text.length;
    },
    complete() {
      if (file === undefined) return;
      if (fstatSync(file).size > bytes) throw otherContent(path);
      fsyncSync(file);
      syncFolderOf(path);
    },
    close() {
      if (file !== undefined) closeSync(file);
    },
  };
}

function openKnown(path: string): number | undefined {
  try {
    return openSync(path, O_RDWR | O_NOFOLLOW);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code !== 'ELOOP') throw error;
    throw new UsageError(`${path} is a link, and nothing is written through one. Name another file with --rejected.`);
  }
}

function otherContent(path: string): UsageError {
  return new UsageError(
    `${path} has something else than the rejected rows of this import. Move it away, and run the same command again: it writes all of them.`,
  );
}
