import { randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, open, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { MOST_LOOKED_AT } from '../../../payments/ports/payment-history.js';
import { lostNumberIn } from '../../../payments/values/reference.js';
import { type Finding, median, milliseconds, noAnswer, verdictOf } from '../../../platform/finding.js';
import {
  type Check,
  type ComparedSettings,
  ENDS_WITH_SEPARATOR,
  judgeAccess,
  judgeLostNumbers,
  judgeProcessors,
} from '../../shared/checks.js';
import { examineSchema } from '../../shared/found-schema.js';
import { type PaidRow, paidCountsOf } from '../../shared/payment-history.js';
import { readSchema } from '../migrate.js';
import { readAdoption } from '../payments/adopt.js';
import { COUNT_PAID } from '../payments/payment-history-statements.js';
import { FOLDER_WORDS, readProcessorNames } from '../payments/processor-names.js';
import { NOTICEABLE_MS } from '../store-clock.js';
import { canLockIn, DATABASE } from './exclusive-folder.js';
import { readLastCommit } from './last-commit.js';
import { readMark } from './leaving-mark.js';
import { type Database, isSqliteTooOld, LEAST_SQLITE_VERSION, openUnchanged, sqliteVersion } from './sqlite.js';

const MEGABYTE = 1_000_000;
/** The log next to the database alone may grow to tens of megabytes. */
const LEAST_FREE_MB = 100;
const LOW_FREE_MB = 1_000;
const SYNCS = 5;
/** One page of the log. */
const SYNC_BYTES = 4_096;
/** Each payment waits for two commits. */
const SLOW_SYNC_MS = 50;
/** Writes are refused after waiting 3 s for the thread, and a batch has several syncs at a checkpoint. */
const UNUSABLE_SYNC_MS = 1_000;

const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x5346414f, 'AFS'],
  [0x01021997, '9P'],
]);
const MEMORY_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x01021994, 'tmpfs'],
  [0x858458f6, 'ramfs'],
]);
/** They may be right: FUSE can be a local disk, and a container may be kept. */
const DOUBTFUL_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x65735546, 'FUSE'],
  [0x794c7630, 'overlay, a layer of a container'],
]);

interface ExaminedFolder extends ComparedSettings {
  /** `DATA_DIR`, absolute. */
  readonly folder: string;
  /** The folder itself, or the nearest one above it that is there. */
  readonly existing: string;
}

/**
 * Everything that is asked of `DATA_DIR`. The database is read last, after the disk has answered, because it is read on this thread. A start
 * asks for version and schema by itself: its writer opens the file in another way.
 */
export const FOLDER_CHECKS: readonly Check<ExaminedFolder>[] = [
  examineSqlite,
  examineRights,
  examineFileSystem,
  examineLock,
  examineSyncs,
  ({ folder }) => examineSchema('SQLite', () => readDatabase(folder, readSchema)),
  ifReadable(examineLeaving),
  ifReadable(examineStoreClock),
  ifReadable(examineProcessors),
  ifReadable(examineAccess),
  ifReadable(examineLostNumbers),
];

/** A file that cannot be read has no such row, because other rows say what is wrong with it. */
function ifReadable(check: Check<ExaminedFolder>): Check<ExaminedFolder> {
  return async (examined) => {
    try {
      return await check(examined);
    } catch {
      return [];
    }
  };
}

function examineSqlite(): Finding {
  const database = new DatabaseSync(':memory:');
  const version = sqliteVersion(database);
  database.close();
  return {
    verdict: verdictOf(isSqliteTooOld(version)),
    what: 'SQLite',
    found: version,
    wanted: `${LEAST_SQLITE_VERSION.join('.')} or newer`,
    why: 'older versions can lose a commit when the log is reset',
  };
}

export async function nearestExisting(folder: string): Promise<string> {
  return folder === dirname(folder) || (await isThere(folder)) ? folder : nearestExisting(dirname(folder));
}

async function examineRights({ folder, existing }: ExaminedFolder): Promise<Finding> {
  const row = {
    what: 'DATA_DIR',
    wanted: 'written by the service, closed to others',
    why: 'it holds every payment; run this command as the user of the service',
  };
  if (existing !== folder) {
    const isUsable = await isWritable(existing);
    const found = `${folder} is not there yet; ${existing} can ${isUsable ? '' : 'not '}be written`;
    return { ...row, found, verdict: verdictOf(!isUsable, true) };
  }
  const status = await stat(folder);
  if (!status.isDirectory()) return { ...row, found: `${folder} is not a folder`, verdict: 'wrong' };
  const database = join(folder, DATABASE);
  for (const path of (await isThere(database)) ? [folder, database] : [folder]) {
    if (!(await isWritable(path))) return { ...row, found: `${path} cannot be written by this user`, verdict: 'wrong' };
  }
  const mode = (status.mode & 0o777).toString(8);
  return {
    ...row,
    found: `${folder}, mode ${mode}`,
    verdict: verdictOf((status.mode & 0o002) !== 0, (status.mode & 0o005) !== 0),
  };
}

async function examineFileSystem({ existing }: ExaminedFolder): Promise<Finding[]> {
  const { type, bavail, bsize } = await statfs(existing);
  const freeMb = Math.floor((bavail * bsize) / MEGABYTE);
  return [
    // The numbers are Linux's.
    ...(process.platform === 'linux' ? [judgeFileSystem(type)] : []),
    {
      verdict: verdictOf(freeMb < LEAST_FREE_MB, freeMb < LOW_FREE_MB),
      what: 'DATA_DIR free space',
      found: `${freeMb} MB`,
      wanted: `at least ${LOW_FREE_MB} MB`,
      why: 'a full disk refuses every write with 503',
    },
  ];
}

/** `type` as `statfs` gives it on Linux. */
export function judgeFileSystem(type: number): Finding {
  const number = type >>> 0;
  const wrong = NETWORK_FILE_SYSTEMS.get(number) ?? MEMORY_FILE_SYSTEMS.get(number);
  const doubtful = DOUBTFUL_FILE_SYSTEMS.get(number);
  return {
    verdict: verdictOf(wrong !== undefined, doubtful !== undefined),
    what: 'DATA_DIR file system',
    found: wrong ?? doubtful ?? `local (0x${number.toString(16)})`,
    wanted: 'a local disk that lasts',
    why: 'locks and syncs of a network file system are not reliable, and memory forgets',
  };
}

/** In a file of its own: the service may hold the lock of the folder. */
function examineLock({ folder, existing }: ExaminedFolder): Finding | [] {
  if (existing !== folder) return [];
  const row = { what: 'DATA_DIR lock', why: 'it keeps a second process out, which would pay the same orders' };
  try {
    const canLock = canLockIn(folder);
    const found = canLock ? 'a file can be locked' : 'the file system gives no locks';
    return { ...row, verdict: verdictOf(!canLock), found, wanted: 'a file can be locked' };
  } catch (error) {
    return noAnswer(row.what, (error as Error).message, row.why);
  }
}

async function examineSyncs({ folder, existing }: ExaminedFolder): Promise<Finding | []> {
  if (existing !== folder) return [];
  const path = join(folder, `doctor-${randomUUID()}.tmp`);
  const times: number[] = [];
  try {
    const file = await open(path, 'wx', 0o600);
    try {
      for (let sync = 0; sync < SYNCS; sync += 1) {
        const startedAt = performance.now();
        await file.write(Buffer.alloc(SYNC_BYTES), 0, SYNC_BYTES, sync * SYNC_BYTES);
        await file.sync();
        times.push(performance.now() - startedAt);
      }
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
  } catch (error) {
    return noAnswer('DATA_DIR sync time', (error as Error).message, 'a commit needs it');
  }
  const [typicalMs, longestMs] = [median(times), Math.max(...times)];
  return {
    verdict: verdictOf(typicalMs > UNUSABLE_SYNC_MS, typicalMs > SLOW_SYNC_MS),
    what: 'DATA_DIR sync time',
    found: `${milliseconds(typicalMs)}, at most ${milliseconds(longestMs)} (${SYNCS} writes)`,
    wanted: `less than ${SLOW_SYNC_MS} ms`,
    why: 'each payment waits for two commits, which others share',
  };
}

async function examineLeaving({ folder }: ExaminedFolder): Promise<Finding | []> {
  if (!(await readDatabase(folder, readMark))) return [];
  return {
    verdict: 'wrong',
    what: 'DATA_DIR transfer',
    found: 'idempay transfer moves the deployment away',
    wanted: 'a deployment that stays',
    why: 'no service starts here: serve on the target, or run idempay transfer --cancel',
  };
}

/** The clock as the running service tells it, by the last time that was written. */
async function examineStoreClock({ folder }: ExaminedFolder): Promise<Finding | []> {
  const last = await readDatabase(folder, readLastCommit);
  if (!last) return [];
  const aheadMs = last.clockMs - Date.now();
  return {
    verdict: verdictOf(false, aheadMs > NOTICEABLE_MS),
    what: "the store's clock",
    found: aheadMs > 0 ? `${milliseconds(aheadMs)} ahead` : 'not ahead',
    wanted: 'at most a minute ahead of this machine',
    why: 'it is never set back, so that a key that was refused stays refused',
  };
}

/** Reads the index of references, for seconds if it has millions. */
async function examineLostNumbers({ folder }: ExaminedFolder): Promise<Finding> {
  return judgeLostNumbers(await readDatabase(folder, lostNumbersIn));
}

const NEWEST_CHARGE = `
  SELECT key FROM (SELECT key, state, processor, refund_of FROM payments ORDER BY transaction_id DESC LIMIT 100)
  WHERE state = 'COMPLETED' AND processor = ? AND refund_of IS NULL LIMIT 1`;

/** The key of a payment among the newest that was completed at the processor. Throws if the file cannot be read. */
export async function newestChargeIn(folder: string, processor: string): Promise<string | undefined> {
  const row = await readDatabase(folder, (database) => database.prepare(NEWEST_CHARGE).get(processor));
  return (row as { key: string } | undefined)?.key;
}

async function examineProcessors({ folder, processors }: ExaminedFolder): Promise<Finding | []> {
  const finding = await readDatabase(folder, (database) => {
    const paid = paidCountsOf(database.prepare(COUNT_PAID).all(MOST_LOOKED_AT) as unknown as PaidRow[]);
    return judgeProcessors(processors, readProcessorNames(database), paid, FOLDER_WORDS);
  });
  return finding ?? [];
}

async function examineAccess({ folder, access }: ExaminedFolder): Promise<Finding | []> {
  const finding = await readDatabase(folder, (database) => judgeAccess(access, readAdoption(database), FOLDER_WORDS));
  return finding ?? [];
}

function lostNumbersIn(database: Database): { payments: number; example: string } | undefined {
  const select = `SELECT reference FROM payments WHERE reference IS NOT NULL AND ${ENDS_WITH_SEPARATOR}`;
  let found: { payments: number; example: string } | undefined;
  for (const row of database.prepare(select).iterate()) {
    const { reference } = row as { reference: string };
    if (lostNumberIn(reference) === undefined) continue;
    found ??= { payments: 0, example: reference };
    found.payments += 1;
  }
  return found;
}

/** Undefined if there is no database. */
async function readDatabase<Result>(
  folder: string,
  read: (database: Database) => Result | Promise<Result>,
): Promise<Result | undefined> {
  const path = join(folder, DATABASE);
  if (!existsSync(path)) return undefined;
  const database = openUnchanged(path);
  try {
    return await read(database);
  } finally {
    database.close();
  }
}

const isThere = (path: string) => isAccessible(path, constants.F_OK);
const isWritable = (path: string) => isAccessible(path, constants.R_OK | constants.W_OK);

function isAccessible(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
