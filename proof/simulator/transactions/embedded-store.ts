import type { PreparedRead, Reader } from '#idempay/deployments/embedded/reader.js';
import { createStoreCounters } from '#idempay/deployments/embedded/store-counters.js';
import { createEmbeddedTransactionCache } from '#idempay/deployments/embedded/transaction-cache.js';
import { TRANSACTION_COLUMNS } from '#idempay/deployments/embedded/transaction-columns.js';
import { createEmbeddedTransactionStore } from '#idempay/deployments/embedded/transaction-store.js';
import type { WriteName } from '#idempay/deployments/embedded/write-operations.js';
import type { Writer } from '#idempay/deployments/embedded/writer.js';
import { type TransactionRow, transactionOf } from '#idempay/deployments/rows.js';
import type { RemovalRow } from '#idempay/deployments/transaction-removals.js';
import { toTenThousandths } from '#idempay/transactions/amount.js';
import type { NewTransaction, Transaction, TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { TransactionStore } from '#idempay/transactions/transaction-store.js';
import { EmbeddedDatabase } from '../embedded-database.js';
import type { Server } from '../network.js';
import type { Actor } from '../simulation.js';
import { matches, type TransactionTable } from './table.js';

const ROW = `SELECT ${TRANSACTION_COLUMNS} FROM transactions WHERE id = ?`;
const LIST = 'SELECT version, last_removal_version FROM transaction_list';
const REMOVALS = 'SELECT * FROM transaction_removals ORDER BY version DESC';

/** Marks of writes that ended with their process stay in a shared cache until it is replaced. */
const LIVES_OF_A_CACHE = 2_000;
/** Each life has ids of its own in the shared cache. */
const IDS_OF_A_LIFE = 1_000_000;
/** The adapter's entries live by a real clock; here they live as long as their process. */
const FOR_EVER = 0;

/** The file of one machine, which outlives its processes; what its statements do to a row is shown to the judge. */
export class TransactionFile {
  private readonly database: EmbeddedDatabase;

  constructor(private readonly table: TransactionTable) {
    this.database = new EmbeddedDatabase(() => table.now());
  }

  write(name: WriteName, input: object): unknown {
    const result = this.database.write(name, input);
    const { id } = (name === 'createTransaction' ? result : input) as { id: number };
    const row = this.prepare(ROW).get(id) as TransactionRow | undefined;
    const list = this.prepare(LIST).get() as { version: number; last_removal_version: number };
    this.table.observe(id, row && transactionOf(row), list.version, list.last_removal_version);
    return result;
  }

  prepare(sql: string): PreparedRead {
    return this.database.prepare(sql);
  }

  create(transaction: NewTransaction): Transaction {
    const { id } = this.write('createTransaction', transaction) as { id: number };
    return this.table.rows.get(id) as Transaction;
  }
}

/** The real adapter of the embedded store over the real statements, in one process that has opened the file. */
export function openEmbeddedTransactionStore(
  file: TransactionFile,
  table: TransactionTable,
  line: Server,
  instance: Actor,
): TransactionStore {
  const writer = {
    write(name: WriteName, input: { readonly id?: number }) {
      const subject = name === 'createTransaction' ? instance.name : String(input.id);
      return line.ask(instance, name, subject, () => file.write(name, input));
    },
  } as unknown as Writer;
  const reader = {
    prepare: (sql: string) => file.prepare(sql),
    async openSnapshot() {
      const rows = [...table.rows.values()];
      const { version, lastRemovalVersion } = table;
      const removals = file.prepare(REMOVALS).all() as RemovalRow[];
      return {
        prepare: (sql: string) => prepare(sql, { rows, removals, version, lastRemovalVersion }),
        isWanted: () => false,
        close() {},
      };
    },
  } as unknown as Reader;
  return createEmbeddedTransactionStore(writer, reader);
}

interface Snapshot {
  readonly rows: readonly Transaction[];
  /** The newest first. */
  readonly removals: readonly RemovalRow[];
  readonly version: number;
  readonly lastRemovalVersion: number;
}

/** One connection has no snapshots: the few statements that are read in one, told by what they ask for. */
function prepare(sql: string, snapshot: Snapshot): PreparedRead {
  if (sql.includes('last_removal_version')) {
    const get = () => ({ version: snapshot.version, last_removal_version: snapshot.lastRemovalVersion });
    return { get, all: () => [get()] };
  }
  if (sql.includes('transaction_removals')) {
    const all = (since: string | number = 0) => snapshot.removals.filter(({ version }) => version > Number(since));
    return { get: (since) => all(since)[0], all };
  }
  const all = (...parameters: readonly (string | number)[]) => {
    const accounts = parameters.slice(2).map(String);
    const filter: TransactionFilter = {
      from: sql.includes('from_account = ?3') ? (accounts.shift() ?? '') : '',
      to: /to_account = [?][34]/.test(sql) ? (accounts.shift() ?? '') : '',
    };
    const listed = snapshot.rows.filter((row) => row.id > Number(parameters[0]) && matches(row, filter));
    return listed.slice(0, Number(parameters[1])).map(rowOf);
  };
  return { get: (...parameters) => all(...parameters)[0], all };
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
