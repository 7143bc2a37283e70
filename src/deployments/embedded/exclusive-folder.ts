import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { CannotOpen } from '../deployment.js';
import { createPrivate, FOLDER_MODE } from './private-file.js';

const SQLITE_BUSY = 5;

/**
 * Takes the folder for this process alone: `lock.sqlite` is held in an exclusive transaction until `release`. The lock
 * is the kernel's, so it ends with the process however that ends, and no stale lock file can remain.
 * A folder that is not there is made, closed to other users; the mode of one that is there is the operator's.
 * Throws CannotOpen when another process holds it, or the folder cannot be used.
 */
export function takeExclusively(folder: string): { release(): void } {
  try {
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
    const path = join(folder, 'lock.sqlite');
    createPrivate(path);
    const lock = new DatabaseSync(path, { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return { release: () => lock.close() };
  } catch (error) {
    const code = (error as { errcode?: number }).errcode;
    const message =
      code === SQLITE_BUSY
        ? `DATA_DIR ${folder} is in use by another Idempay process. Stop that one, or set another DATA_DIR.`
        : `DATA_DIR ${folder} cannot be used: ${(error as Error).message}. It must be a folder this process may write to.`;
    throw new CannotOpen(message, { cause: error });
  }
}
