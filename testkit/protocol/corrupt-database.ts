import { open, readFile } from 'node:fs/promises';
import { DatabaseSync } from '@photostructure/sqlite';

const PAGE_SIZE_OFFSET = 16;
/** No kind of SQLite page begins with this byte, so that no page of it can be taken for data. */
const GARBAGE = 0xa5;

/** Moves all that a stopped service has written into the file itself: pages in the log next to it would hide the garbage. */
export function emptyLog(path: string): void {
  const database = new DatabaseSync(path);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
}

/** Overwrites every page of an SQLite file from `firstPage` (counted from 1) on, and says how many those were. */
export async function corruptDatabase(path: string, firstPage: number): Promise<number> {
  const stored = await readFile(path);
  const pageBytes = stored.readUInt16BE(PAGE_SIZE_OFFSET);
  const from = (firstPage - 1) * pageBytes;
  const garbage = Buffer.alloc(Math.max(0, stored.length - from), GARBAGE);
  const file = await open(path, 'r+');
  await file.write(garbage, 0, garbage.length, from);
  await file.close();
  return garbage.length / pageBytes;
}
