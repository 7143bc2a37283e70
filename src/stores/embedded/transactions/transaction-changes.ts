import type { RemovalResult, StatusChangeResult } from '../../../transactions/ports/transaction-store.js';
import { FINAL_STATUSES, type TransactionStatus } from '../../../transactions/transaction.js';
import { REMEMBERED_REMOVALS, type TransactionRow, transactionOf } from '../../shared/transaction-rows.js';
import type { Database } from '../file/sqlite.js';
import { TRANSACTION_COLUMNS } from './transaction-statements.js';

const NEXT_VERSION_BY_REMOVAL = `
  UPDATE transaction_list
  SET version = version + 1, last_removal_version = version + 1, previous_removal_version = last_removal_version,
    removals = removals + 1
  RETURNING version, previous_removal_version, removals`;

const REMEMBER_REMOVAL = `
  INSERT OR REPLACE INTO transaction_removals (slot, version, previous_version, id, from_account, to_account)
  VALUES (?, ?, ?, ?, ?, ?)`;

const FIND = `SELECT ${TRANSACTION_COLUMNS} FROM transactions WHERE id = ?`;

const SET_STATUS = `
  UPDATE transactions SET status = ?, version = version + 1 WHERE id = ?
  RETURNING ${TRANSACTION_COLUMNS}`;

const REMOVE = 'DELETE FROM transactions WHERE id = ?';

export interface StatusWrite {
  readonly id: number;
  readonly status: TransactionStatus;
  /** The statuses that may be changed; undefined permits every one. */
  readonly onlyFrom: readonly TransactionStatus[] | undefined;
}

interface MovedByRemoval {
  version: number;
  previous_removal_version: number;
  removals: number;
}

/** Changes and deletes of transactions. They run in the writer thread, one after another, so a read in one still holds below. */
export function createTransactionChanges(database: Database) {
  const nextVersionByRemoval = database.prepare(NEXT_VERSION_BY_REMOVAL);
  const find = database.prepare(FIND);
  const setStatus = database.prepare(SET_STATUS);
  const remove = database.prepare(REMOVE);
  const rememberRemoval = database.prepare(REMEMBER_REMOVAL);

  return {
    changeStatus({ id, status, onlyFrom }: StatusWrite): StatusChangeResult {
      const row = find.get(id) as TransactionRow | undefined;
      if (!row) return { state: 'not found' };
      if (onlyFrom && !onlyFrom.includes(row.status)) return { state: 'precondition failed' };
      if (row.status === status) return { state: 'done', transaction: transactionOf(row) };
      if (FINAL_STATUSES.includes(row.status)) return { state: 'final', status: row.status };
      return { state: 'done', transaction: transactionOf(setStatus.get(status, id) as TransactionRow) };
    },

    removeTransaction({ id, onlyFrom }: Omit<StatusWrite, 'status'>): RemovalResult {
      const row = find.get(id) as TransactionRow | undefined;
      if (!row) return 'not found';
      if (onlyFrom && !onlyFrom.includes(row.status)) return 'precondition failed';
      remove.run(id);
      const moved = nextVersionByRemoval.get() as MovedByRemoval;
      const slot = moved.removals % REMEMBERED_REMOVALS;
      rememberRemoval.run(slot, moved.version, moved.previous_removal_version, id, row.from_account, row.to_account);
      return 'removed';
    },
  };
}
