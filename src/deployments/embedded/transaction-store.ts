import type { TransactionFilter } from '../../transactions/transaction.js';
import type { TransactionSnapshot, TransactionStore } from '../../transactions/transaction-store.js';
import { type TransactionRow, transactionOf } from '../transaction-row.js';
import type { Reader, SnapshotConnection } from './reader.js';
import { TRANSACTION_COLUMNS } from './transaction-columns.js';
import type { Writer } from './writer.js';

const FIND = `SELECT ${TRANSACTION_COLUMNS} FROM transactions WHERE id = ?`;
const LIST_VERSION = 'SELECT version, last_removal_version FROM transaction_list';

interface ListVersionRow {
  version: number;
  last_removal_version: number;
}

export function createEmbeddedTransactionStore(writer: Writer, reader: Reader): TransactionStore {
  const find = reader.prepare(FIND);
  let listVersion = (reader.prepare(LIST_VERSION).get() as ListVersionRow).version;

  /**
   * The version is known from the answers of the writer, so asking for it costs nothing. It also moves when a snapshot
   * shows a newer one: nobody may be told "unchanged" after somebody was shown the change.
   */
  function sawListVersion(version: number): void {
    listVersion = Math.max(listVersion, version);
  }

  return {
    async create(transaction) {
      const created = await writer.write('createTransaction', transaction);
      sawListVersion(created.listVersion);
      return { ...transaction, id: created.id, version: 1, createdAt: created.createdAt };
    },

    async get(id) {
      const row = find.get(id) as TransactionRow | undefined;
      return row && transactionOf(row);
    },

    changeStatus: (id, status, onlyFrom) => writer.write('changeStatus', id, status, onlyFrom ?? null),

    async remove(id, onlyFrom) {
      const removed = await writer.write('removeTransaction', id, onlyFrom ?? null);
      if (typeof removed === 'string') return removed;
      sawListVersion(removed.listVersion);
      return 'removed';
    },

    listVersion: async () => listVersion,

    async openSnapshot(filter) {
      const snapshot = snapshotOf(await reader.openSnapshot(), filter);
      sawListVersion(snapshot.version);
      return snapshot;
    },
  };
}

function snapshotOf(connection: SnapshotConnection, filter: TransactionFilter): TransactionSnapshot {
  try {
    const version = connection.prepare(LIST_VERSION).get() as ListVersionRow;
    const { condition, parameters } = conditionOf(filter);
    const ids = connection.prepare(`SELECT id FROM transactions WHERE ${condition} ORDER BY id LIMIT ?`);
    const rows = connection.prepare(
      `SELECT ${TRANSACTION_COLUMNS} FROM transactions WHERE ${condition} ORDER BY id LIMIT ?`,
    );
    return {
      version: version.version,
      lastRemovalVersion: version.last_removal_version,
      ids: async (afterId, limit) => {
        await turnOfTheEventLoop(afterId);
        return (ids.all(afterId, ...parameters, limit) as { id: number }[]).map((row) => row.id);
      },
      rows: async (afterId, limit) => {
        await turnOfTheEventLoop(afterId);
        return (rows.all(afterId, ...parameters, limit) as TransactionRow[]).map(transactionOf);
      },
      close: () => connection.close(),
    };
  } catch (fault) {
    connection.close();
    throw fault;
  }
}

function conditionOf(filter: TransactionFilter): { condition: string; parameters: string[] } {
  const terms = ['id > ?'];
  const parameters: string[] = [];
  if (filter.from !== '') {
    terms.push('from_account = ?');
    parameters.push(filter.from);
  }
  if (filter.to !== '') {
    terms.push('to_account = ?');
    parameters.push(filter.to);
  }
  return { condition: terms.join(' AND '), parameters };
}

/** Between two pages of a long list other requests are served; the first page is read at once. */
async function turnOfTheEventLoop(afterId: number): Promise<void> {
  if (afterId > 0) await new Promise((resolve) => setImmediate(resolve));
}
