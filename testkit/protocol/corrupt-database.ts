import { open } from 'node:fs/promises';
import { DatabaseSync } from '@photostructure/sqlite';

/** Where SQLite keeps the page size in the header of its file, as two bytes; 1 stands for 65536. */
const PAGE_SIZE_OFFSET = 16;
/** No kind of SQLite page begins with this byte, so that no page of it can be taken for data. */
const GARBAGE = 0xa5;

/** Moves all that a stopped service has written into the file itself: pages in the log beside it would hide the garbage. */
export function emptyLog(path: string): void {
  const database = new DatabaseSync(path);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
}

/** Overwrites every page of an SQLite file from `firstPage` (counted from 1) on, and says how many those were. */
export async function corruptDatabase(path: string, firstPage: number): Promise<number> {
  const file = await open(path, 'r+');
  try {
    const header = Buffer.alloc(2);
    await file.read(header, 0, 2, PAGE_SIZE_OFFSET);
    const stored = header.readUInt16BE();
    const pageBytes = stored === 1 ? 65_536 : stored;
    const pages = Math.floor((await file.stat()).size / pageBytes);
    const garbage = Buffer.alloc(pageBytes, GARBAGE);
    for (let page = firstPage; page <= pages; page += 1)
      await file.write(garbage, 0, pageBytes, (page - 1) * pageBytes);
    await file.sync();
    return Math.max(0, pages - firstPage + 1);
  } finally {
    await file.close();
  }
}
