import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import type { Clock } from '../../../platform/clock.js';
import { CannotOpen } from '../../shared/deployment.js';
import { type CommitMark, readLastCommit } from './last-commit.js';
import { type Database, faultOf, openForReading } from './sqlite.js';

/** https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const PAGE_SIZE_AT = 8;
const SALTS_AT = 16;
const FRAME_SALTS_AT = 8;
const SALT_BYTES = 8;

interface LoggedMark extends Pick<CommitMark, 'incarnation' | 'number'> {
  /** The incarnation before, in the commit that gave another one. */
  readonly adopted: unknown;
}

const LOOK_EVERY_MS = 5_000;
const UNREADABLE = 'unreadable';
const ROOT_PAGE = "SELECT rootpage FROM sqlite_schema WHERE name = 'last_commit'";

/**
 * SQLite replays the log that it finds, whatever database lies next to it: over another copy of the database that makes a mixture
 * of both. A log belongs to the database if it goes on from a commit that the database has. Every commit writes its number, so the
 * first number in the log is at most one more than the number in the file, and the last one is not below it. Throws
 * CannotOpen. Changes nothing. No other process has the database open for writing.
 */
export function assertLogBelongs(path: string): void {
  const logPath = `${path}-wal`;
  if (sizeOf(logPath) <= HEADER_BYTES) return;
  // SQLite would delete the log of an empty file.
  if (sizeOf(path) === 0 || !isContinued(path, logPath)) {
    throw new CannotOpen(
      `${logPath} does not belong to ${path}: it is the log of another copy, and was not read. If you have put a copy in the place of the database, remove the files ending in -wal and -shm and start again: what the copy lacks is then treated as lost. If not, put the database of this log back.`,
    );
  }
}

/**
 * Tells the size of the write-ahead log every few seconds. Asked of the operating system alongside the event loop, and never twice
 * at once: a disk that hangs holds one look, and nothing else.
 */
export function watchWalSize(databasePath: string, clock: Clock, tell: (bytes: number) => void): { stop(): void } {
  let stopped = false;
  let cancelNext = () => {};

  async function look(): Promise<void> {
    // There is none before the first write.
    tell(
      await stat(`${databasePath}-wal`).then(
        ({ size }) => size,
        () => 0,
      ),
    );
    if (!stopped) cancelNext = clock.after(LOOK_EVERY_MS, look);
  }

  void look();
  return {
    stop() {
      stopped = true;
      cancelNext();
    },
  };
}

function isContinued(path: string, logPath: string): boolean {
  const inFile = lookAt(new DatabaseSync(new URL(`${pathToFileURL(path)}?immutable=1`), { readOnly: true }), readMark);
  const { mark: last, rootPage } = lookAt(openForReading(path), (database) => ({
    mark: readMark(database),
    rootPage: (database.prepare(ROOT_PAGE).get() as { rootpage: number } | undefined)?.rootpage,
  }));
  // A database that is being made: all of it is in the log.
  if (!last || last === UNREADABLE || rootPage === undefined) return last === inFile;
  // A power cut in the middle of moving the log into the file leaves pages that only the log makes whole.
  if (inFile === UNREADABLE) return true;
  const first = firstMarkIn(logPath, rootPage);
  if (!first) return isSame(inFile, last);
  if (!inFile) return first.number <= 1;
  if (first.incarnation !== last.incarnation) return false;
  // A restored copy was adopted by the first commit in the log, and none of it is in the file yet.
  if (first.adopted === inFile.incarnation) return inFile.number === first.number - 1;
  const isOfSameLife = first.incarnation === inFile.incarnation;
  return isOfSameLife && first.number - 1 <= inFile.number && inFile.number <= last.number;
}

/** Undefined if the table is not there. */
function readMark(database: Database): CommitMark | typeof UNREADABLE | undefined {
  try {
    return readLastCommit(database);
  } catch (error) {
    return faultOf(error) === 'refused' ? undefined : UNREADABLE;
  }
}

function lookAt<T>(database: Database, look: (database: Database) => T): T {
  try {
    return look(database);
  } finally {
    database.close();
  }
}

const isSame = (one: CommitMark | undefined, other: CommitMark) =>
  one?.incarnation === other.incarnation && one.number === other.number;

/** The row of the first frame that has it; undefined if none of the log's own frames does. */
function firstMarkIn(logPath: string, rootPage: number): LoggedMark | undefined {
  const file = openSync(logPath, 'r');
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    readSync(file, header, 0, HEADER_BYTES, 0);
    const pageBytes = header.readUInt32BE(PAGE_SIZE_AT);
    const salts = header.subarray(SALTS_AT, SALTS_AT + SALT_BYTES);
    const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes);
    for (let at = HEADER_BYTES; readSync(file, frame, 0, frame.length, at) === frame.length; at += frame.length) {
      // The frames from here on are of the log's life before.
      if (!frame.subarray(FRAME_SALTS_AT, FRAME_SALTS_AT + SALT_BYTES).equals(salts)) return undefined;
      if (frame.readUInt32BE(0) !== rootPage) continue;
      const [, incarnation, number, , , adopted] = readLeafRow(frame.subarray(FRAME_HEADER_BYTES)) ?? [];
      return { incarnation: String(incarnation), number: Number(number), adopted };
    }
    return undefined;
  } finally {
    closeSync(file);
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** https://www.sqlite.org/fileformat2.html#b_tree_pages and the record format there. */
const TABLE_LEAF = 0x0d;
const CELLS_AT = 3;
const FIRST_CELL_AT = 8;
const INTEGER_BYTES = [0, 1, 2, 3, 4, 6, 8] as const;
const FIRST_TEXT = 13;

/** The columns of the only row of a table, from its page; undefined if this is no such page. Reads the types that our rows have. */
function readLeafRow(page: Buffer): (string | number | null)[] | undefined {
  if (page[0] !== TABLE_LEAF || page.readUInt16BE(CELLS_AT) !== 1) return undefined;
  let at = page.readUInt16BE(FIRST_CELL_AT);

  /** Seven bits of each byte, the highest first. Longer ones are not in our rows. */
  function readVarint(): number {
    let value = 0;
    for (;;) {
      const byte = page[at++] ?? 0;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
  }

  readVarint(); // the length of the row
  readVarint(); // its rowid
  const headerAt = at;
  const headerEnd = headerAt + readVarint();
  const types: number[] = [];
  while (at < headerEnd) types.push(readVarint());
  return types.map((type) => {
    if (type === 0) return null;
    if (type === 8 || type === 9) return type - 8;
    const bytes = type >= FIRST_TEXT ? (type - FIRST_TEXT) / 2 : (INTEGER_BYTES[type] ?? 0);
    const value = page.subarray(at, at + bytes);
    at += bytes;
    if (type >= FIRST_TEXT) return value.toString('utf8');
    return bytes === 8 ? Number(value.readBigInt64BE()) : value.readIntBE(0, bytes);
  });
}
