import { closeSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/** Closed to every user but the one that made it. */
export const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Makes an empty file that is closed to other users; SQLite gives its mode to the files next to it. One that is there is left
 * alone, and not even opened: to close it would give up the locks that this process holds on it (POSIX).
 */
export function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', FILE_MODE));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Syncs a file, or a folder whose names have changed. */
export function syncPath(path: string): void {
  const opened = openSync(path, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

/** A new file is there after a power cut only if its folder was synced as well. */
export function syncFolderOf(path: string): void {
  syncPath(dirname(path));
}
