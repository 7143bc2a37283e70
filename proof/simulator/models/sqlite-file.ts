import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { LRUCache } from 'lru-cache';
import type { Clock } from '#idempay/platform/clock.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { adopt } from '#idempay/stores/embedded/file/adoption.js';
import { LastCommit, readLastCommit } from '#idempay/stores/embedded/file/last-commit.js';
import { createEmbeddedKeyStore, type Lock } from '#idempay/stores/embedded/key-store.js';
import { createStoreCounters } from '#idempay/stores/embedded/key-value-store-report.js';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { createEmbeddedLedger } from '#idempay/stores/embedded/payments/ledger.js';
import { createEmbeddedPaymentHistory } from '#idempay/stores/embedded/payments/payment-history.js';
import { createEmbeddedRefundLedger } from '#idempay/stores/embedded/payments/refunds.js';
import { createEmbeddedSettlements } from '#idempay/stores/embedded/payments/settlement-reads.js';
import { Reader } from '#idempay/stores/embedded/reader.js';
import { StoreClock } from '#idempay/stores/embedded/store-clock.js';
import { createEmbeddedTransactionCache } from '#idempay/stores/embedded/transaction-cache.js';
import { TRANSACTION_COLUMNS } from '#idempay/stores/embedded/transactions/transaction-statements.js';
import { createEmbeddedTransactionStore } from '#idempay/stores/embedded/transactions/transaction-store.js';
import { createEmbeddedEndpointRows } from '#idempay/stores/embedded/webhooks/endpoint-rows.js';
import { createBatchCommits } from '#idempay/stores/embedded/writer/batch-commits.js';
import {
  createWriteOperations,
  type WriteBatch,
  type WriteName,
  type WriteOperations,
  type WriteResults,
} from '#idempay/stores/embedded/writer/write-operations.js';
import { Writer, type WriterThread } from '#idempay/stores/embedded/writer/writer.js';
import type { SimulatedPorts } from '../stores.js';
import { type Line, ROUTINE } from './line.js';
import type { StoredPayment } from './payment-statements.js';

/** More than a history has keys: room for a hundred thousand takes milliseconds to make. */
const REMEMBERED = 1_000;
/** The cache's entries live by a real clock; here they live as long as their process. */
const FOR_EVER = 0;

/** Operations after which the newest row is the created one, unless they created none. */
export const CREATES: ReadonlySet<WriteName> = new Set(['createTransaction', 'createTransactions']);

/** One operation of a batch that was committed. */
export interface Written {
  readonly name: WriteName;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  /** The rows that it may have changed, as they were inside its commit. */
  readonly rows: readonly unknown[];
}

let shared: ReturnType<typeof createFile> | undefined;

/** One file for all histories of this thread, each of which begins with it as it was migrated. */
function createFile() {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-simulator-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'idempay.sqlite');
  const database = new DatabaseSync(path);
  // A power cut is no fault here: what a commit returned from is there for every process after it.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
  migrate(database);
  const transactions = `SELECT ${TRANSACTION_COLUMNS} FROM transactions`;
  // The source of a payment has a table of its own.
  const payments = `SELECT payments.*, rtrim(source) AS source FROM payments LEFT JOIN payment_sources USING (key)`;
  const rows = {
    created: database.prepare(`${transactions} ORDER BY id DESC LIMIT 1`),
    transaction: database.prepare(`${transactions} WHERE id = ?`),
    payment: database.prepare(`${payments} WHERE key = ?`),
    payments: database.prepare(payments),
  };
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[];
  const restore = tables.flatMap(({ name }) => {
    const values = (database.prepare(`SELECT * FROM ${name}`).all() as object[]).map((row) =>
      Object.values(row).map((value) => (value === null ? 'NULL' : `'${value}'`)),
    );
    return [`DELETE FROM ${name}`, ...values.map((row) => `INSERT INTO ${name} VALUES (${row})`)];
  });
  return { path, database, rows, tables: tables.map(({ name }) => name), restore: restore.join(';') };
}

/**
 * The real adapters of the embedded deployment over a real SQLite file, which outlives its processes. Only the thread is
 * modelled: a batch of the writer is a message to the disk, and the real group commit runs when that arrives, in this thread.
 */
export class SqliteFile {
  private readonly file: ReturnType<typeof createFile>;
  /** Closes everything that the current process has open. */
  close = () => {};

  constructor(
    now: () => number,
    private readonly committed: (written: readonly Written[]) => void,
  ) {
    shared ??= createFile();
    this.file = shared;
    const ms = Math.floor(now());
    this.file.database.exec(this.file.restore);
    this.file.database.exec(`UPDATE retention_hours SET lowest_key_ms = ${ms}, clock_ms = ${ms}`);
  }

  open(line: Line, clock: Clock): SimulatedPorts & { readonly locks: ReadonlyMap<string, Lock> } {
    this.close();
    const thread = this.startThread(line, clock);
    const storeClock = new StoreClock(clock, readLastCommit(this.file.database).clockMs);
    const writer = new Writer(thread, () => {}, clock, { storeClock });
    const reader = Reader.ofFile(this.file.path, () => {});
    const snapshots: { close(): void }[] = [];
    const openSnapshot = reader.openSnapshot.bind(reader);
    reader.openSnapshot = async (...asked) => {
      const snapshot = await openSnapshot(...asked);
      snapshots.push(snapshot);
      return snapshot;
    };
    this.close = () => {
      for (const snapshot of snapshots) snapshot.close();
      reader.close();
    };
    const counters = createStoreCounters();
    const locks = new Map<string, Lock>();
    return {
      locks,
      id: 'a file',
      clock: storeClock,
      keys: createEmbeddedKeyStore(writer, reader, counters, { remembered: new LRUCache({ max: REMEMBERED }), locks }),
      ledger: createEmbeddedLedger(writer, reader, storeClock, clock.now),
      refunds: createEmbeddedRefundLedger(writer, reader, storeClock, clock.now),
      paymentHistory: createEmbeddedPaymentHistory(reader, storeClock.now, clock.now),
      settlements: createEmbeddedSettlements(writer, reader, clock.monotonic),
      endpointRows: createEmbeddedEndpointRows(writer, reader, storeClock),
      transactions: createEmbeddedTransactionStore(writer, reader, clock),
      transactionCache: createEmbeddedTransactionCache(FOR_EVER, counters, REMEMBERED),
      async close() {},
    };
  }

  /**
   * Returns what sets the file back to this moment, as a restored copy that its next start adopts. Nothing may have it open then. Returns
   * the payments that are left.
   */
  backUp(clock: Clock): () => readonly StoredPayment[] {
    const { database, tables, rows } = this.file;
    const kept = tables.map((name) => [name, database.prepare(`SELECT * FROM ${name}`).all() as object[]] as const);
    return () => {
      this.close();
      this.close = () => {};
      const { clockMs } = readLastCommit(database);
      for (const [name, all] of kept) {
        database.exec(`DELETE FROM ${name}`);
        for (const row of all) {
          const values = Object.values(row);
          database.prepare(`INSERT INTO ${name} VALUES (${values.map(() => '?').join()})`).run(...values);
        }
      }
      // The folder remembers the time of the last commit.
      adopt(database, new StoreClock(clock, clockMs).now());
      return rows.payments.all() as unknown as StoredPayment[];
    };
  }

  query(sql: string): unknown[] {
    return this.file.database.prepare(sql).all();
  }

  private rowsOf(name: WriteName, input: Written['input']): unknown[] {
    const { key, id } = input;
    const { created, transaction, payment, payments } = this.file.rows;
    if (CREATES.has(name)) return created.all();
    if (id !== undefined) return transaction.all(Number(id));
    // A claim of an attempt that the processor knows inserts those before it as well, and a refund changes its payment.
    const isMore = name === 'resolve' || ['knownAtProcessor', 'refund', 'isRefund'].some((member) => member in input);
    return key === undefined || isMore ? payments.all() : payment.all(String(key));
  }

  private startThread(line: Line, clock: Clock): WriterThread {
    const { database } = this.file;
    const storeClock = new StoreClock(clock, readLastCommit(database).clockMs);
    const lastCommit = new LastCommit(database, storeClock);
    /** Forgotten when the batch is rolled back, as all of it is. */
    let written: Written[] = [];
    const operations = Object.entries(createWriteOperations(database, lastCommit, storeClock.now));
    const watched = operations.map(([key, operation]) => {
      const name = key as WriteName;
      const run = (input: Written['input'] = {}) => {
        const result = (operation as (given: unknown) => unknown)(input);
        written.push({ name, input, result, rows: this.rowsOf(name, input) });
        return result;
      };
      return [name, run];
    });
    const commitTogether = createBatchCommits(database, Object.fromEntries(watched) as WriteOperations, lastCommit);
    const commit = (batches: readonly WriteBatch[]): readonly WriteResults[] => {
      written = [];
      const results = commitTogether(batches);
      if (results.every(({ faults }) => !faults)) this.committed(written);
      return results;
    };
    commit([{ names: ['endAllLeases', 'tryCommit'], inputs: [] }]);
    const thread = new EventEmitter();
    const queued: WriteBatch[] = [];
    let isBusy = false;
    const workOff = async () => {
      isBusy = true;
      while (queued.length > 0)
        thread.emit('message', JSON.stringify(await sendBatches(line, queued.splice(0), commit)));
      isBusy = false;
    };
    return Object.assign(thread, {
      postMessage(message: string) {
        queued.push(JSON.parse(message) as WriteBatch);
        if (!isBusy) void workOff();
      },
      async terminate() {},
    });
  }
}

/** One message to the disk: what the thread finds when it has done the last. */
function sendBatches(
  line: Line,
  batches: readonly WriteBatch[],
  commit: (batches: readonly WriteBatch[]) => readonly WriteResults[],
) {
  const names = batches.flatMap((batch) => batch.names);
  const inputs = batches.flatMap((batch) => batch.inputs);
  const operation = names.every((name) => ROUTINE.has(name)) ? (names[0] as string) : names.join('+');
  const subjects = (inputs as (Written['input'] | undefined)[]).map((input) => {
    // The key of a create is one of several members that name it.
    const { key = input?.key } = (input?.key ?? {}) as { readonly key?: string };
    return String(key ?? input?.id ?? input?.name ?? line.caller);
  });
  const sent = line.send<readonly WriteResults[]>(operation, subjects, (reply) => reply(commit(batches)));
  return sent.catch((fault: unknown): readonly WriteResults[] => {
    if (!(fault instanceof StoreUnavailable) || fault.effect !== 'unchanged') throw fault;
    const full = { fault: 'full' as const, message: fault.message };
    return batches.map((batch) => ({ values: [], faults: batch.names.map(() => full) }));
  });
}
