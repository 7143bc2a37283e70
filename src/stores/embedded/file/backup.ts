import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createPrivate, syncFolderOf, syncPath } from '../../../platform/private-files.js';
import { CannotOpen } from '../../shared/deployment.js';
import { refuseForeignFile } from '../migrate.js';
import { markAsBackup } from './adoption.js';
import { refuseLeaving } from './leaving-mark.js';
import { openAlone } from './sqlite.js';
import { databaseIn } from './stopped-database.js';

const PROGRESS_EVERY_MS = 1_000;

/**
 * Copies the database of a folder into a file that is not there yet, while a service runs on it or not. The copy is of one
 * moment: everything acknowledged before the call is in it. It is complete and on the disk when this resolves; until then
 * only `<file>.partial` is there. Both are closed to other users. Throws CannotOpen. `onProgress` is told the bytes that are
 * copied, of about how many.
 */
export async function backUp(
  dataDir: string,
  file: string,
  onProgress: (copiedBytes: number, aboutBytes: number) => void,
): Promise<void> {
  const source = databaseIn(dataDir);
  const partial = `${file}.partial`;
  refuseForeignFile(source);
  if (existsSync(file)) throw new CannotOpen(`${file} exists. Name a file that does not.`);
  if (existsSync(partial)) {
    throw new CannotOpen(
      `${partial} exists: another backup is being written, or one was killed. Remove it if none runs.`,
    );
  }
  try {
    createPrivate(partial);
    const copied = new AbortController();
    const progress = reportSize(source, partial, onProgress, copied.signal);
    await copyInThread(source, partial).finally(() => copied.abort());
    await progress;
    markFile(partial);
    syncPath(partial);
    renameSync(partial, file);
    syncFolderOf(file);
  } catch (error) {
    for (const suffix of ['', '-journal']) rmSync(partial + suffix, { force: true });
    throw error instanceof CannotOpen
      ? error
      : new CannotOpen(`The backup failed: ${(error as Error).message}.`, { cause: error });
  }
}

function copyInThread(source: string, target: string): Promise<void> {
  const worker = new Worker(new URL('./backup-thread.js', import.meta.url), { workerData: { source, target } });
  return new Promise((resolve, reject) => {
    worker.on('error', reject);
    worker.on('exit', (code) => (code === 0 ? resolve() : reject(new Error('the thread that copies ended'))));
  });
}

async function reportSize(
  source: string,
  target: string,
  onProgress: (copiedBytes: number, aboutBytes: number) => void,
  copied: AbortSignal,
): Promise<void> {
  while (!copied.aborted) {
    await delay(PROGRESS_EVERY_MS, undefined, { signal: copied }).catch(() => {});
    if (!copied.aborted && existsSync(target)) onProgress(statSync(target).size, statSync(source).size);
  }
}

function markFile(path: string): void {
  const database = openAlone(path);
  try {
    // Asked of the copy, because a transfer may have begun after the backup. Restored, it would serve next to the target.
    refuseLeaving(database, 'No backup was made');
    markAsBackup(database);
  } finally {
    database.close();
  }
}
