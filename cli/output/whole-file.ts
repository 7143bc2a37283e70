import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync } from 'node:fs';
import { syncFolderOf } from '#idempay/platform/private-files.js';
import { UsageError } from '../usage.js';

/** The errors of exFAT, SMB, virtiofs, 9p and FUSE for a hard link. */
const NO_HARD_LINKS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP']);
const MODE = 0o600;

/**
 * The file has another name until it is complete and durable, so that a part is never taken for the whole. `write` creates and syncs the
 * part. Throws UsageError if the file cannot be written or is there already: it is never replaced.
 */
export async function writeWhole<Result>(path: string, write: (part: string) => Promise<Result>): Promise<Result> {
  if (existsSync(path)) throw isThere(path);
  const part = `${path}.${randomUUID()}.part`;
  try {
    const result = await write(part);
    appear(part, path);
    syncFolderOf(path);
    return result;
  } catch (error) {
    const { code, path: failed } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw isThere(path);
    throw failed === part ? cannotBeWritten(path, code) : error;
  } finally {
    // The error of the writing counts, also if nothing can be removed.
    if (existsSync(part)) rmSync(part, { force: true });
  }
}

/**
 * Gives a complete file its name; throws EEXIST if another file has it. A hard link does both at once. Without hard links an empty file
 * takes the name first, so that one of two commands wins. A command that dies after that leaves the empty file, which never counts as
 * whole; after the rename it leaves the whole one.
 */
export function appear(part: string, path: string): void {
  try {
    linkSync(part, path);
  } catch (error) {
    if (!NO_HARD_LINKS.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    closeSync(openSync(path, 'wx', MODE));
    renameSync(part, path);
  }
}

const cannotBeWritten = (path: string, code: string | undefined) =>
  new UsageError(
    `${path} cannot be written (${code}): name a file in a folder that is there and that you may write to.`,
  );

const isThere = (path: string) => new UsageError(`${path} is there already: name another file, or remove it.`);
