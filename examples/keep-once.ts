import { randomUUID } from 'node:crypto';
import { link, open, readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Keeps the text under this name, unless one is kept there already. Gives the one that is kept, when it is on the disk to stay. Any number
 * of processes may call it at once: all of them get the same text.
 *
 * It stands for your database: `INSERT ... ON CONFLICT DO NOTHING`, committed, then `SELECT`.
 */
export async function keepOnce(path: string, text: string): Promise<string> {
  const draft = `${path}.${randomUUID()}.draft`;
  await sync(draft, text);
  try {
    // One step: the name is there with its whole text, or it was taken.
    await link(draft, path);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EEXIST') throw fault;
  } finally {
    await rm(draft);
  }
  await sync(dirname(path));
  return readFile(path, 'utf8');
}

export async function keptText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw fault;
  }
}

/** Writes the file, or only makes sure that the folder's names are on the disk. */
async function sync(path: string, text?: string): Promise<void> {
  const file = await open(path, text === undefined ? 'r' : 'wx');
  try {
    if (text !== undefined) await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}
