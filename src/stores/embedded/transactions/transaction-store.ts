import type { Clock } from '../../../platform/clock.js';
import type { StoreUnavailable } from '../../../platform/faults.js';
import type { TransactionSnapshot, TransactionStore } from '../../../transactions/ports/transaction-store.js';
import {
  ABOVE_ALL_IDS,
  type Transaction,
  type TransactionFilter,
  type TransactionStatus,
} from '../../../transactions/transaction.js';
import { OneAtATime } from '../../shared/one-at-a-time.js';
import {
  accountsOf,
  bySelection,
  firstRemovedId,
  type RemovalRow,
  selectionOf,
  type TransactionRow,
  transactionOf,
} from '../../shared/transaction-rows.js';
import type { Reader, SnapshotConnection } from '../reader.js';
import type { Writer } from '../writer/writer.js';
import {
  LIST_IDS,
  LIST_ROWS,
  NEWEST_EXTENT,
  NEWEST_ROWS,
  ROWS_WITH_STATUS,
  TRANSACTION_COLUMNS,
} from './transaction-statements.js';

/** Rows looked at for a status at a time, about a millisecond: other requests are served between two steps. */
const STEP = 1_000;

const FIND = `SELECT ${TRANSACTION_COLUMNS} FROM transactions WHERE id = ?`;
const LIST_VERSION = 'SELECT version, last_removal_version FROM transaction_list';

const REMOVALS_SINCE = `
  SELECT version, previous_version, id, from_account, to_account
  FROM transaction_removals WHERE version > ? ORDER BY version DESC`;

interface ListVersionRow {
  version: number;
  last_removal_version: number;
}

export function createEmbeddedTransactionStore(writer: Writer, reader: Reader, clock: Clock): TransactionStore {
  /** Only one batch of rows is with the writer at a time, so a payment waits for at most one such commit. */
  const batches = new OneAtATime('The database file', clock);
  const find = reader.prepare(FIND);
  const readVersion = reader.prepare(LIST_VERSION);
  let changesUnderWay = 0;
  /** The list version while no change of the list is under way, once it was asked for. */
  let restingVersion: number | undefined;

  /**
   * Readers of the file see a commit before the writer's answer arrives, and no client may get "unchanged" after a client was shown the
   * change. So the version is read from the file while a change is under way, also while its outcome is unknown.
   */
  function changing<T>(change: Promise<T>): Promise<T> {
    changesUnderWay += 1;
    const end = () => {
      changesUnderWay -= 1;
      restingVersion = undefined;
    };
    change.then(end, ({ ended }: StoreUnavailable) => (ended ? ended.then(end, end) : end()));
    return change;
  }

  const versionInFile = () => (readVersion.get() as ListVersionRow).version;

  return {
    async create(transaction) {
      const created = await changing(writer.write('createTransaction', transaction));
      return { ...transaction, id: created.id, version: 1, createdAt: created.createdAt };
    },

    async createAll(transactions, key) {
      const write = () => changing(writer.write('createTransactions', { transactions, key }));
      return await (transactions.length === 1 ? write() : batches.run(write));
    },

    async findCreation(key) {
      return (await writer.write('findCreation', key)) ?? undefined;
    },

    async get(id) {
      const row = find.get(id) as TransactionRow | undefined;
      return row && transactionOf(row);
    },

    changeStatus: (id, status, onlyFrom) => writer.write('changeStatus', { id, status, onlyFrom }),

    remove: (id, onlyFrom) => changing(writer.write('removeTransaction', { id, onlyFrom })),

    newest: createSearch(reader),

    listVersion() {
      if (changesUnderWay > 0) return versionInFile();
      restingVersion ??= versionInFile();
      return restingVersion;
    },

    async openSnapshot(filter, long) {
      return snapshotOf(await reader.openSnapshot(filter.client, long), filter, reader.listReads);
    },
  };
}

function snapshotOf(
  connection: SnapshotConnection,
  filter: TransactionFilter,
  listReads: Reader['listReads'],
): TransactionSnapshot {
  const { permit } = connection;
  const { client } = filter;
  try {
    const version = connection.prepare(LIST_VERSION).get() as ListVersionRow;
    const selection = selectionOf(filter);
    const accounts = accountsOf(filter);
    const ids = connection.prepare(LIST_IDS[selection]);
    const rows = connection.prepare(LIST_ROWS[selection]);
    return {
      version: version.version,
      async firstRemovedSince(since) {
        const lastRemovalVersion = version.last_removal_version;
        if (lastRemovalVersion <= since) return Number.POSITIVE_INFINITY;
        const removals = connection.prepare(REMOVALS_SINCE).all(since) as RemovalRow[];
        return firstRemovedId(removals, lastRemovalVersion, since, filter);
      },
      ids: (afterId, limit) =>
        listReads.page(client, limit, () => {
          const page = ids.all(afterId, limit, ...accounts) as { id: number }[];
          return page.map(({ id }) => id);
        }),
      rows: (afterId, limit) =>
        listReads.page(client, limit, () =>
          (rows.all(afterId, limit, ...accounts) as TransactionRow[]).map(transactionOf),
        ),
      isWanted: () => permit.isWanted(),
      isOwed: () => permit.isOwed(),
      lengthen: () => permit.lengthen(),
      close: () => connection.close(),
    };
  } catch (fault) {
    connection.close();
    throw fault;
  }
}

/**
 * Reads backwards in short steps, each of which sees the newest commit: no snapshot is held. Ids are never used again and new
 * ones are higher, so consecutive steps miss no row that existed during the whole search.
 */
function createSearch(reader: Reader): TransactionStore['newest'] {
  const { listReads } = reader;
  const newest = bySelection((selection) => reader.prepare(NEWEST_ROWS[selection]));
  const extents = bySelection((selection) => reader.prepare(NEWEST_EXTENT[selection]));
  const withStatus = bySelection((selection) => reader.prepare(ROWS_WITH_STATUS[selection]));

  return async (search, mostRead) => {
    const { client, status, limit, before = ABOVE_ALL_IDS } = search;
    const selection = selectionOf(search);
    const accounts = accountsOf(search);

    /** The next rows that have the status. Their range is read first, so a concurrent removal only makes the second read shorter. */
    function step(below: number, most: number, wanted: TransactionStatus) {
      const extent = extents[selection].get(below, most, ...accounts) as { length: number; lowest: number | null };
      const { length, lowest } = extent;
      const rows = lowest === null ? [] : withStatus[selection].all(below, lowest, wanted, ...accounts);
      return { rows: rows as TransactionRow[], length, lowest };
    }

    if (status === undefined) {
      // One row more than the page says whether there is a next one.
      const rows = () => newest[selection].all(before, limit + 1, ...accounts) as TransactionRow[];
      const found = (await listReads.page(client, STEP, rows)).map(transactionOf);
      const transactions = found.slice(0, limit);
      return { transactions, next: found.length > limit ? transactions.at(-1)?.id : undefined };
    }
    const found: Transaction[] = [];
    let below = before;
    for (let left = mostRead; left > 0 && found.length < limit; ) {
      const most = Math.min(STEP, left);
      const seen = await listReads.part(
        client,
        () => step(below, most, status),
        ({ length }) => length / STEP,
      );
      found.push(...seen.rows.map(transactionOf));
      if (seen.length < most && found.length <= limit) return { transactions: found, next: undefined };
      left -= seen.length;
      below = seen.lowest ?? below;
    }
    const transactions = found.slice(0, limit);
    return { transactions, next: found.length > limit ? transactions.at(-1)?.id : below };
  };
}
