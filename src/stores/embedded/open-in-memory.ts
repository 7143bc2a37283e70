import { EventEmitter } from 'node:events';
import { DatabaseSync } from '@photostructure/sqlite';
import { LRUCache } from 'lru-cache';
import { KEY_GENERATED } from '../../payments/values/payment.js';
import type { Clock } from '../../platform/clock.js';
import type { Deployment } from '../shared/deployment.js';
import { LastCommit } from './file/last-commit.js';
import type { Database } from './file/sqlite.js';
import { createEmbeddedKeyStore, type RememberedRecords } from './key-store.js';
import { createEmbeddedReport, createStoreCounters } from './key-value-store-report.js';
import { migrate } from './migrate.js';
import { createEmbeddedLedger } from './payments/ledger.js';
import { createEmbeddedPaymentHistory } from './payments/payment-history.js';
import { createEmbeddedRefundLedger } from './payments/refunds.js';
import { createEmbeddedSettlements } from './payments/settlement-reads.js';
import { Reader, type Snapshots } from './reader.js';
import { StoreClock } from './store-clock.js';
import { createEmbeddedTransactionCache } from './transaction-cache.js';
import { createEmbeddedTransactionStore } from './transactions/transaction-store.js';
import { createEmbeddedEndpointRows } from './webhooks/endpoint-rows.js';
import { createBatchCommits } from './writer/batch-commits.js';
import { createWriteOperations, type WriteBatch, type WriteResults } from './writer/write-operations.js';
import { Writer, type WriterThread } from './writer/writer.js';

/** Enough for most tests; what is not remembered is read. Room for as many as a service remembers would cost milliseconds and a megabyte. */
const REMEMBERED = 100;
/** Memory that SQLite takes for a database and its statements; the garbage collector does not know of it. Nothing is written to it. */
const NATIVE_BYTES = 1_000_000;
/** Entries of the cache live by a real clock; here they live as long as the database. */
const FOR_EVER_MS = 0;

/** Collected with its database, and sooner than that would be alone. */
const weights = new WeakMap<Database, ArrayBuffer>();

export interface InMemory extends Omit<Deployment, 'close' | 'broken' | 'processors' | 'adoption'> {
  /** As a loss of the key-value store: all keys that are not paid yet are unknown from now on. */
  forgetKeys(): void;
}

/** The adapters of the embedded deployment on a database in memory: one connection, no thread, nothing swept. For `idempay/testing`. */
export function openInMemory(clock: Clock): InMemory {
  const database = new DatabaseSync(':memory:');
  weights.set(database, new ArrayBuffer(NATIVE_BYTES));
  migrate(database);
  // The schema has the machine's time, and this clock may be behind it.
  const nowMs = Math.floor(clock.now());
  database.exec(`UPDATE retention_hours SET lowest_key_ms = ${nowMs}, clock_ms = ${nowMs}`);
  const storeClock = new StoreClock(clock, 0);
  const lastCommit = new LastCommit(database, storeClock);
  const operations = createWriteOperations(database, lastCommit, storeClock.now);
  const { thread, snapshots } = createThread(database, createBatchCommits(database, operations, lastCommit));
  const writer = new Writer(thread, raise, clock, { storeClock });
  const reader = new Reader(database, snapshots, raise);
  const counters = createStoreCounters();
  const transactionCache = createEmbeddedTransactionCache(FOR_EVER_MS, counters, REMEMBERED);
  const keyValueStore = createEmbeddedReport(writer, reader, { cache: transactionCache, counters }, storeClock);
  const remembered: RememberedRecords = new LRUCache({ max: REMEMBERED });
  return {
    ...(database.prepare('SELECT id FROM deployment').get() as { id: string }),
    clock: storeClock,
    keys: createEmbeddedKeyStore(writer, reader, counters, { remembered }),
    ledger: createEmbeddedLedger(writer, reader, storeClock, clock.now),
    refunds: createEmbeddedRefundLedger(writer, reader, storeClock, clock.now),
    paymentHistory: createEmbeddedPaymentHistory(reader, storeClock.now, clock.now),
    settlements: createEmbeddedSettlements(writer, reader, clock.monotonic, 0),
    endpointRows: createEmbeddedEndpointRows(writer, reader, storeClock),
    transactions: createEmbeddedTransactionStore(writer, reader, clock),
    transactionCache,
    keyValueStore,
    storeOfRecord: keyValueStore,
    forgetKeys() {
      remembered.clear();
      const forgotten = database.prepare('DELETE FROM idempotency_keys WHERE value = ?').run(KEY_GENERATED);
      lastCommit.keyRecords -= Number(forgotten.changes);
    },
  };
}

/** Nothing but a mistake in the code breaks a database in memory. */
function raise(error: Error): void {
  throw error;
}

/**
 * In place of the writer thread. A list is read from one moment without a snapshot of its own, because writes wait until it has
 * been read.
 */
function createThread(
  database: Database,
  commit: (batches: readonly WriteBatch[]) => readonly WriteResults[],
): { thread: WriterThread; snapshots: Snapshots } {
  const emitter = new EventEmitter();
  let waiting: WriteBatch[] = [];
  let lists = 0;

  function workOff(): void {
    if (lists > 0 || waiting.length === 0) return;
    const batches = waiting;
    waiting = [];
    emitter.emit('message', JSON.stringify(commit(batches)));
  }

  const snapshots: Snapshots = {
    begin() {
      lists += 1;
      return database;
    },
    end() {
      lists -= 1;
      workOff();
    },
    close() {},
  };
  const thread = Object.assign(emitter, {
    postMessage(message: string) {
      waiting.push(JSON.parse(message) as WriteBatch);
      queueMicrotask(workOff);
    },
    async terminate() {},
  });
  return { thread, snapshots };
}
