import { join } from 'node:path';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { Clock } from '../../../platform/clock.js';
import { createPrivate } from '../../../platform/private-files.js';
import { adopt, isRestored } from '../file/adoption.js';
import { DATABASE, type ExclusiveFolder, takeExclusively } from '../file/exclusive-folder.js';
import { LastCommit, readLastCommit } from '../file/last-commit.js';
import { refuseLeaving } from '../file/leaving-mark.js';
import { assertDurable, type Database, openForWriting } from '../file/sqlite.js';
import { assertLogBelongs } from '../file/write-ahead-log.js';
import { hasSchema, migrate, refuseForeignFile } from '../migrate.js';
import { receiveTime, type SentTime, StoreClock, sendTime } from '../store-clock.js';
import { createBatchCommits } from './batch-commits.js';
import {
  CLOSE,
  createWriteOperations,
  type Ready,
  type WriteBatch,
  type WriterThreadData,
} from './write-operations.js';

/** The only connection that writes. Each message is a batch of operations; those that wait together are one commit. */
function run({ dataDir, wallClock, migrations }: WriterThreadData, port: MessagePort): void {
  const folder = takeExclusively(dataDir);
  try {
    const database = openMigrated(dataDir, migrations);
    serve(folder, database, clockFrom(wallClock), port);
  } catch (error) {
    folder.release();
    throw error;
  }
}

/** The migration runs in this thread, because it may take minutes and the main thread answers probes meanwhile. */
function openMigrated(dataDir: string, migrations: string | undefined): Database {
  const path = join(dataDir, DATABASE);
  const files = migrations === undefined ? undefined : new URL(migrations);
  createPrivate(path);
  refuseForeignFile(path, files);
  assertLogBelongs(path);
  const database = openForWriting(path);
  // Before anything is changed: the target may be one that only the earlier version can complete.
  if (hasSchema(database, files)) refuseLeaving(database, `DATA_DIR ${dataDir} cannot be used`);
  migrate(database, files);
  return database;
}

function serve(folder: ExclusiveFolder, database: Database, clock: Clock, port: MessagePort): void {
  const found = readLastCommit(database);
  const { remembered } = folder;
  const storeClock = new StoreClock(clock, Math.max(found.clockMs, remembered?.clockMs ?? 0));
  const wasRestored = isRestored(database, found, remembered);
  // Dies after this and before `remember`: the next start adopts once more, which leaves one more gap in the ids.
  if (wasRestored) adopt(database, storeClock.now());
  folder.remember(readLastCommit(database));
  folder.sync('always');
  const lastCommit = new LastCommit(database, storeClock, folder.remember);
  const operations = createWriteOperations(database, lastCommit, storeClock.now);
  const commit = createBatchCommits(database, operations, lastCommit, folder.assertHeld);
  // The first commit has the number too, so that the log cannot begin without it.
  const [started] = commit([{ names: ['endAllLeases', 'tryCommit'], inputs: [] }]);
  if (started?.faults) throw new Error(started.faults.find(Boolean)?.message ?? 'the first commit failed');
  assertDurable(database);

  function close(): void {
    // A stopped service leaves everything in the one file, so that a copy of it is a complete backup.
    try {
      // Not if another process may have the folder by now.
      folder.assertHeld();
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // The log keeps what the file has no room for; the next start reads both.
    }
    try {
      database.close();
    } finally {
      folder.release();
      port.close();
    }
  }

  port.on('message', (first: string) => {
    const messages = [first];
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) messages.push(next.message);
    const batches = messages.filter((message) => message !== CLOSE).map((message) => JSON.parse(message) as WriteBatch);
    if (batches.length > 0) {
      port.postMessage(JSON.stringify(commit(batches)));
      folder.sync();
    }
    if (messages.includes(CLOSE)) close();
  });
  const ready: Ready = { wasRestored, clockMs: lastCommit.clockMs, now: sendTime(storeClock.now()) };
  port.postMessage(ready);
}

/** The wall clock is the main thread's, read before this thread was begun. */
function clockFrom(wallClock: SentTime): Clock {
  return {
    now: () => receiveTime(wallClock),
    monotonic: () => performance.now(),
    after() {
      throw new Error('the writer thread has no timers');
    },
  };
}

run(workerData as WriterThreadData, parentPort as MessagePort);
