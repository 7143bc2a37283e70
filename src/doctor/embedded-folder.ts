import { randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, open, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { type Finding, median, milliseconds, noAnswer, verdictOf } from '../platform/finding.js';
import { within } from '../platform/time-limit.js';
import { DATABASE } from '../stores/embedded/exclusive-folder.js';
import { readLastCommit } from '../stores/embedded/last-commit.js';
import { isSqliteTooOld, LEAST_SQLITE_VERSION, openUnchanged, sqliteVersion } from '../stores/embedded/sqlite.js';
import { NOTICEABLE_MS } from '../stores/embedded/store-clock-watch.js';
import { examineSchema } from './sqlite-schema.js';

/** A check of a disk that does not answer would never end. */
const LIMIT_MS = 10_000;
const MEGABYTE = 1_000_000;
/** The log beside the database alone may grow to tens of megabytes. */
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

/** Examines `DATA_DIR`, whether a service runs on it or not. Changes nothing there. Takes some seconds at most. */
export async function examineFolder(dataDir: string): Promise<readonly Finding[]> {
  const unusable = (reason: string) => noAnswer('DATA_DIR', reason, 'without its folder the service does not start');
  const looked = lookAt(resolve(dataDir)).catch((error: Error) => [unusable(error.message)]);
  return [examineSqlite(), ...(await within(LIMIT_MS, looked, [unusable(`no answer within ${LIMIT_MS / 1_000} s`)]))];
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

async function lookAt(folder: string): Promise<readonly Finding[]> {
  const existing = await nearestExisting(folder);
  const rights = existing === folder ? await examineRights(folder) : await examineParent(folder, existing);
  const syncs = existing === folder ? [await examineSyncs(folder)] : [];
  // Last, after the disk has answered: it is read on this thread.
  return [
    rights,
    ...(await examineFileSystem(existing)),
    ...syncs,
    examineSchema(join(folder, DATABASE)),
    ...examineStoreClock(join(folder, DATABASE)),
  ];
}

async function nearestExisting(folder: string): Promise<string> {
  try {
    await stat(folder);
    return folder;
  } catch {
    return folder === dirname(folder) ? folder : nearestExisting(dirname(folder));
  }
}

const RIGHTS = {
  what: 'DATA_DIR',
  wanted: 'written by the service, closed to others',
  why: 'it holds every payment; run this command as the user of the service',
} as const;

async function examineParent(folder: string, existing: string): Promise<Finding> {
  const found = `${folder} is not there yet; ${existing} can ${(await isWritable(existing)) ? '' : 'not '}be written`;
  return { ...RIGHTS, found, verdict: verdictOf(!(await isWritable(existing)), true) };
}

async function examineRights(folder: string): Promise<Finding> {
  const found = await stat(folder);
  if (!found.isDirectory()) return { ...RIGHTS, found: `${folder} is not a folder`, verdict: 'wrong' };
  const database = join(folder, DATABASE);
  const hasDatabase = await stat(database).then(
    () => true,
    () => false,
  );
  for (const path of hasDatabase ? [folder, database] : [folder]) {
    if (!(await isWritable(path)))
      return { ...RIGHTS, found: `${path} cannot be written by this user`, verdict: 'wrong' };
  }
  const mode = (found.mode & 0o777).toString(8);
  return {
    ...RIGHTS,
    found: `${folder}, mode ${mode}`,
    verdict: verdictOf((found.mode & 0o002) !== 0, (found.mode & 0o005) !== 0),
  };
}

function isWritable(path: string): Promise<boolean> {
  return access(path, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function examineFileSystem(folder: string): Promise<Finding[]> {
  const { type, bavail, bsize } = await statfs(folder);
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

async function examineSyncs(folder: string): Promise<Finding> {
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

/** As the running service tells it, from the last time that was written; nothing where there is no database, or none of this version. */
function examineStoreClock(path: string): readonly Finding[] {
  if (!existsSync(path)) return [];
  const database = openUnchanged(path);
  try {
    const aheadMs = readLastCommit(database).clockMs - Date.now();
    return [
      {
        verdict: verdictOf(false, aheadMs > NOTICEABLE_MS),
        what: "the store's clock",
        found: aheadMs > 0 ? `${milliseconds(aheadMs)} ahead` : 'not ahead',
        wanted: 'at most a minute ahead of this machine',
        why: 'it is never set back, so that a key that was refused stays refused',
      },
    ];
  } catch {
    // Other rows say what is wrong with the file.
    return [];
  } finally {
    database.close();
  }
}
