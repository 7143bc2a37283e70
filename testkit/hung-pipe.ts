import { execFileSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, rmSync } from 'node:fs';

/** The size of libuv's pool, unless UV_THREADPOOL_SIZE changes it. */
export const LIBUV_THREADS = 4;

/**
 * Puts a pipe without a writer in the place of a file. Each read of it hangs and keeps a thread, as on a network mount that does not answer.
 * The function that it returns removes the pipe, and ends all reads.
 */
export function hangReadsOf(path: string): () => void {
  rmSync(path, { force: true });
  execFileSync('mkfifo', [path]);
  return () => {
    if (!existsSync(path)) return;
    const writer = openSync(path, constants.O_RDWR);
    rmSync(path);
    closeSync(writer);
  };
}
