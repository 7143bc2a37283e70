import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { DatabaseSync } from '@photostructure/sqlite';
import type { Clock } from '#idempay/clock.js';
import { createBatchCommits } from '#idempay/deployments/embedded/batch-commits.js';
import { createEmbeddedKeyStore } from '#idempay/deployments/embedded/key-store.js';
import { createEmbeddedLedger } from '#idempay/deployments/embedded/ledger.js';
import { migrate } from '#idempay/deployments/embedded/migrate.js';
import { createEmbeddedPaymentHistory } from '#idempay/deployments/embedded/payment-history.js';
import { Reader, type SnapshotConnection } from '#idempay/deployments/embedded/reader.js';
import type { Database } from '#idempay/deployments/embedded/sqlite.js';
import { createStoreCounters } from '#idempay/deployments/embedded/store-counters.js';
import { createEmbeddedTransactionCache } from '#idempay/deployments/embedded/transaction-cache.js';
import { createEmbeddedTransactionStore } from '#idempay/deployments/embedded/transaction-store.js';
import {
  createWriteOperations,
  readKeyCount,
  type WriteBatch,
  type WriteName,
  type WriteOperations,
  type WriteResults,
} from '#idempay/deployments/embedded/write-operations.js';
import { Writer } from '#idempay/deployments/embedded/writer.js';
import { StoreUnavailable } from '#idempay/faults.js';
import type { SimulatedPorts } from '../stores.js';
import { type Line, ROUTINE } from './line.js';

/** More than a history has keys: room for a hundred thousand takes milliseconds to make. */
const REMEMBERED = 1_000;
/** The cache's entries live by a real clock; here they live as long as their process. */
const FOR_EVER = 0;

/** One operation of a batch that was committed. */
export interface Written {
  readonly name: WriteName;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  /** What the observer looked at when the operation had run, inside its commit. */
  readonly seen: unknown;
}

type LookAt = (database: Database, name: WriteName, input: Written['input']) => unknown;

let shared: { readonly path: string; readonly database: Database; readonly first: string } | undefined;

/** One file for all histories of this thread, each of which begins with it as it was migrated. */
function emptyFile(now: number) {
  if (!shared) {
    const folder = mkdtempSync(join(tmpdir(), 'idempay-simulator-'));
    process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, 'idempay.sqlite');
    const database = new DatabaseSync(path);
    // A power cut is no fault here: what a commit returned from is there for every process after it.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
    migrate(database);
    shared = { path, database, first: dumpOf(database) };
  }
  shared.database.exec(shared.first);
  shared.database.exec(`UPDATE retention_hours SET lowest_key_ms = ${now}, clock_ms = ${now}`);
  return shared;
}

/** Statements that make every table what it is now. */
function dumpOf(database: Database): string {
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[];
  const statements = tables.flatMap(({ name }) => {
    const rows = database.prepare(`SELECT * FROM ${name}`).all() as Record<string, string | number | null>[];
    const values = rows.map((row) => Object.values(row).map((value) => (value === null ? 'NULL' : `'${value}'`)));
    return [`DELETE FROM ${name}`, ...values.map((row) => `INSERT INTO ${name} VALUES (${row.join(', ')})`)];
  });
  return statements.join(';\n');
}

/**
 * The real adapters of the embedded deployment over a real SQLite file, which outlives its processes. Only the thread is
 * modelled: a batch of the writer is a message to the disk, and the real group commit runs when that arrives, in this thread.
 */
export class SqliteFile {
  private readonly path: string;
  private readonly database: Database;
  private closeBefore = () => {};

  /** `lookAt` is asked inside each commit, after each operation; `committed` is given what it saw. */
  constructor(
    private readonly now: () => number,
    private readonly lookAt: LookAt,
    private readonly committed: (written: readonly Written[]) => void,
  ) {
    ({ path: this.path, database: this.database } = emptyFile(Math.floor(now())));
  }

  /** As a new process does; whatever the process before still had open is closed. */
  open(line: Line, clock: Clock): SimulatedPorts {
    this.closeBefore();
    const thread = this.startThread(line);
    const writer = new Writer(thread as unknown as Worker, () => {}, clock);
    const reader = new TrackedReader(this.path);
    this.closeBefore = () => reader.close();
    const counters = createStoreCounters();
    return {
      keys: createEmbeddedKeyStore(writer, reader, clock, counters, REMEMBERED),
      ledger: createEmbeddedLedger(writer, reader, clock),
      paymentHistory: createEmbeddedPaymentHistory(reader),
      transactions: createEmbeddedTransactionStore(writer, reader),
      transactionCache: createEmbeddedTransactionCache(FOR_EVER, counters, REMEMBERED),
      async close() {},
    };
  }

  close(): void {
    this.closeBefore();
  }

  query(sql: string): object[] {
    return this.database.prepare(sql).all() as object[];
  }

  /** Undone when the batch is rolled back, as all of it is. */
  private startThread(line: Line): EventEmitter {
    const written: Written[] = [];
    const keyCount = readKeyCount(this.database);
    const operations = createWriteOperations(this.database, keyCount, () => Math.floor(this.now()));
    const watched = Object.fromEntries(
      Object.entries(operations).map(([name, operation]) => [
        name,
        (input: Written['input'] = {}) => {
          const result = (operation as (given: unknown) => unknown)(input);
          const of = { name: name as WriteName, input };
          written.push({ ...of, result, seen: this.lookAt(this.database, of.name, input) });
          return result;
        },
      ]),
    ) as unknown as WriteOperations;
    const commitTogether = createBatchCommits(this.database, watched, keyCount);
    const commit = (batch: WriteBatch): WriteResults => {
      const results = commitTogether(batch);
      const done = written.splice(0);
      if (!results.faults) this.committed(done);
      return results;
    };
    commit({ names: ['endAllLeases'], inputs: [undefined] });
    const thread = new EventEmitter();
    return Object.assign(thread, {
      postMessage(message: string) {
        const batch = JSON.parse(message) as WriteBatch;
        sendBatch(line, batch, commit).then((results) => thread.emit('message', JSON.stringify(results)));
      },
    });
  }
}

function sendBatch(line: Line, batch: WriteBatch, commit: (batch: WriteBatch) => WriteResults): Promise<WriteResults> {
  const { names, inputs } = batch;
  const operation = names.every((name) => ROUTINE.has(name)) ? (names[0] as string) : names.join('+');
  const subjects = (inputs as (Written['input'] | undefined)[]).map((input) =>
    String(input?.key ?? input?.id ?? line.caller),
  );
  return line
    .send<WriteResults>(operation, subjects, (reply) => reply(commit(batch)))
    .catch((fault: unknown) => {
      if (!(fault instanceof StoreUnavailable) || fault.effect !== 'unchanged') throw fault;
      return { values: [], faults: names.map(() => ({ fault: 'full' as const, message: fault.message })) };
    });
}

/** Knows the snapshots that are open, so that they end with their process. */
class TrackedReader extends Reader {
  private readonly open = new Set<SnapshotConnection>();

  constructor(path: string) {
    super(path, () => {});
  }

  override async openSnapshot(): Promise<SnapshotConnection> {
    const snapshot = await super.openSnapshot();
    this.open.add(snapshot);
    const close = () => {
      this.open.delete(snapshot);
      snapshot.close();
    };
    return { ...snapshot, close };
  }

  override close(): void {
    for (const snapshot of this.open) snapshot.close();
    super.close();
  }
}
