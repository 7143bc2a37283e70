import { closeSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/** A new file is there after a power cut only if its folder was synced as well. */
export function syncFolderOf(path: string): void {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
