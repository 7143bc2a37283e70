import type { PreparedRead, Reader } from '#idempay/deployments/embedded/reader.js';
import { createStoreCounters } from '#idempay/deployments/embedded/store-counters.js';
import { createEmbeddedTransactionCache } from '#idempay/deployments/embedded/transaction-cache.js';
import { createEmbeddedTransactionStore } from '#idempay/deployments/embedded/transaction-store.js';
import type { WriteName, WriteOperations } from '#idempay/deployments/embedded/write-operations.js';
import type { Writer } from '#idempay/deployments/embedded/writer.js';
import type { TransactionRow } from '#idempay/deployments/transaction-row.js';
import { toTenThousandths } from '#idempay/transactions/amount.js';
import { FINAL_STATUSES, type Transaction, type TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { TransactionStore } from '#idempay/transactions/transaction-store.js';
import type { Server } from '../network.js';
import type { Actor } from '../simulation.js';
import { matches, type TransactionTable } from './table.js';

/** Marks of writes that ended with their process stay in a shared cache until it is replaced. */
const LIVES_OF_A_CACHE = 2_000;
/** Each life has ids of its own in the shared cache. */
const IDS_OF_A_LIFE = 1_000_000;
/** The adapter's entries live by a real clock; here they live as long as their process. */
const FOR_EVER = 0;

/** The real adapter of the embedded store, over what the writer thread does with SQLite, done with maps. */
export function openEmbeddedTransactionStore(table: TransactionTable, line: Server, instance: Actor): TransactionStore {
  const operations = operationsOf(table);
  const writer = {
    write(name: WriteName, ...parameters: readonly unknown[]) {
      const subject = name === 'createTransaction' ? instance.name : String(parameters[0]);
      const operation = operations[name] as ((...given: readonly unknown[]) => unknown) | undefined;
      if (!operation) throw new Error(`nobody can write ${name}`);
      return line.ask(instance, name, subject, () => operation(...parameters));
    },
  } as unknown as Writer;
  const reader = {
    prepare: (sql: string) => prepare(sql, () => table),
    async openSnapshot() {
      const rows = [...table.rows.values()];
      const { version, lastRemovalVersion } = table;
      return { prepare: (sql: string) => prepare(sql, () => ({ rows, version, lastRemovalVersion })), close() {} };
    },
  } as unknown as Reader;
  return createEmbeddedTransactionStore(writer, reader);
}

function operationsOf(table: TransactionTable): Partial<WriteOperations> {
  return {
    createTransaction(created) {
      const { id, createdAt } = table.create(created);
      return { id, createdAt, listVersion: table.version };
    },

    changeStatus(id, status, onlyFrom) {
      const row = table.rows.get(id);
      if (!row) return { state: 'not found' };
      if (onlyFrom && !onlyFrom.includes(row.status)) return { state: 'precondition failed' };
      if (row.status === status) return { state: 'done', transaction: row };
      if (FINAL_STATUSES.includes(row.status)) return { state: 'final', status: row.status };
      const transaction = { ...row, status, version: row.version + 1 };
      table.change(id, () => transaction);
      return { state: 'done', transaction };
    },

    removeTransaction(id, onlyFrom) {
      const row = table.rows.get(id);
      if (!row) return 'not found';
      if (onlyFrom && !onlyFrom.includes(row.status)) return 'precondition failed';
      table.change(id, () => 'removed');
      return { listVersion: table.version };
    },
  };
}

interface Seen {
  readonly rows: Iterable<Transaction> | ReadonlyMap<number, Transaction>;
  readonly version: number;
  readonly lastRemovalVersion: number;
}

/** The few statements that the adapter reads by, told by what they ask for. */
function prepare(sql: string, see: () => Seen): PreparedRead {
  if (sql.includes('last_removal_version')) {
    const get = () => ({ version: see().version, last_removal_version: see().lastRemovalVersion });
    return { get, all: () => [get()] };
  }
  const list = (...parameters: readonly (string | number)[]) => {
    const { rows } = see();
    const accounts = parameters.slice(1, -1).map(String);
    const filter: TransactionFilter = {
      from: sql.includes('from_account = ?') ? (accounts.shift() ?? '') : '',
      to: sql.includes('to_account = ?') ? (accounts.shift() ?? '') : '',
    };
    const all = rows instanceof Map ? [...rows.values()] : [...(rows as Iterable<Transaction>)];
    const listed = all.filter((row) => row.id > Number(parameters[0]) && matches(row, filter));
    return listed.slice(0, Number(parameters.at(-1))).map(rowOf);
  };
  const find = (id: string | number) => {
    const { rows } = see();
    const row = rows instanceof Map ? rows.get(Number(id)) : undefined;
    return row && rowOf(row);
  };
  return { get: find, all: list };
}

function rowOf({ id, fromAccount, toAccount, amount, status, version, createdAt }: Transaction): TransactionRow {
  const accounts = { from_account: fromAccount, to_account: toAccount };
  return { id, ...accounts, amount: String(toTenThousandths(amount)), status, version, created_at: createdAt };
}

let shared: { readonly cache: TransactionCache; lives: number } | undefined;

/**
 * The real adapter for one life of a process. Its memory has room for a hundred thousand entries and takes milliseconds to
 * make, as long as a whole history does; so one serves many lives, each with ids of its own.
 */
export function openEmbeddedTransactionCache(): TransactionCache {
  if (!shared || shared.lives >= LIVES_OF_A_CACHE) {
    shared = { cache: createEmbeddedTransactionCache(FOR_EVER, createStoreCounters()), lives: 0 };
  }
  shared.lives += 1;
  const { cache, lives } = shared;
  const own = (id: number) => (id % IDS_OF_A_LIFE) + lives * IDS_OF_A_LIFE;
  return {
    lookUp: (id) => cache.lookUp(own(id)),
    fill: (id, token, transaction) => cache.fill(own(id), token, transaction),
    forgo: (id, token) => cache.forgo(own(id), token),
    mark: (id) => cache.mark(own(id)),
    refresh: (mark, transaction) => cache.refresh(mark, transaction),
    evict: (mark) => cache.evict(mark),
  };
}
