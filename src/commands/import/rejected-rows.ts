import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { syncFolderOf } from '../../sync-folder.js';
import { UsageError } from '../usage.js';

export interface RejectedRow {
  /** Of its first line, from 1. */
  readonly line: number;
  readonly reason: string;
  /** The row as it is; what is no UTF-8 is replaced. */
  readonly row: string;
}

/** The file of what was rejected: one JSON document on each line. */
export interface RejectedRows {
  /** Durable when it returns. Returns the length of the file. */
  append(rows: readonly RejectedRow[]): number;
  close(): void;
}

/**
 * After a crash the file is cut to the rows that are done; the others are rejected again. The file is created with the first
 * rejected row. `path` must be that of the import's earlier runs. Throws UsageError where the file is shorter than `knownBytes`.
 */
export function openRejectedRows(path: string, knownBytes: number): RejectedRows {
  let file: number | undefined;
  let bytes = knownBytes;
  if (knownBytes > 0) {
    file = openSync(path, 'r+');
    if (fstatSync(file).size < knownBytes) {
      closeSync(file);
      throw new UsageError(
        `${path} is shorter than this import left it. Put it back as it was, or begin anew with another --state.`,
      );
    }
    ftruncateSync(file, knownBytes);
  }
  return {
    append(rows) {
      if (rows.length === 0) return bytes;
      if (file === undefined) {
        file = openSync(path, 'w', 0o600);
        syncFolderOf(path);
      }
      const text = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
      for (let at = 0; at < text.length; ) at += writeSync(file, text, at, text.length - at, bytes + at);
      fdatasyncSync(file);
      bytes += text.length;
      return bytes;
    },
    close() {
      if (file !== undefined) closeSync(file);
    },
  };
}
