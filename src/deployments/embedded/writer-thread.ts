import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { adoptBackup } from './backup.js';
import { createBatchCommits } from './batch-commits.js';
import { migrate } from './migrate.js';
import { assertDurable, openForWriting } from './sqlite.js';
import {
  CLOSE,
  createWriteOperations,
  READY,
  READY_REPLACED,
  readKeyCount,
  type WriteBatch,
} from './write-operations.js';

/** The only connection that writes. Each message is a batch of operations; those that wait together are one commit. */
function run(path: string, port: MessagePort): void {
  const database = openForWriting(path);
  // Here, because it may take minutes: the main thread answers probes meanwhile.
  migrate(database);
  const wasReplaced = adoptBackup(database, Date.now());
  const keyCount = readKeyCount(database);
  const operations = createWriteOperations(database, keyCount);
  const commit = createBatchCommits(database, operations, keyCount);
  operations.endAllLeases();
  assertDurable(database);

  function close(): void {
    // A stopped service leaves everything in the one file, so that a copy of it is a complete backup.
    try {
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // The log keeps what the file has no room for; the next start reads both.
    }
    database.close();
    port.close();
  }

  port.on('message', (first: string) => {
    const messages = [first];
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) messages.push(next.message);
    const batches = messages.filter((message) => message !== CLOSE).map((message) => JSON.parse(message) as WriteBatch);
    if (batches.length > 0) port.postMessage(JSON.stringify(commit(batches)));
    if (messages.includes(CLOSE)) close();
  });
  port.postMessage(wasReplaced ? READY_REPLACED : READY);
}

run((workerData as { path: string }).path, parentPort as MessagePort);
