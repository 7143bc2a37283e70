import { createKeyRecordWrites } from './key-record-writes.js';
import { createPaymentHorizonWrites } from './payment-horizon-writes.js';
import { createPaymentWrites } from './payment-writes.js';
import { createRetentionTimeWrites } from './retention-time-writes.js';
import { type Database, type SqliteFault, writeOnePage } from './sqlite.js';
import { createTransactionCreationWrites } from './transaction-creation-writes.js';
import { createTransactionWrites } from './transaction-writes.js';

/**
 * Every operation that changes the database. They exist in the writer thread only; the main thread sees their types. `wallClock`
 * is the wall clock that is written to the disk, in whole milliseconds since the epoch.
 */
export function createWriteOperations(
  database: Database,
  keyCount: { records: number },
  wallClock: () => number = Date.now,
) {
  const horizon = createPaymentHorizonWrites(database, wallClock);
  const retentionTime = createRetentionTimeWrites(database, wallClock, horizon.keysFromMs);
  const keyRecords = createKeyRecordWrites(database, keyCount, wallClock, retentionTime.heldClock);
  return {
    ...keyRecords.operations,
    ...createPaymentWrites(
      database,
      keyRecords.recordOutcome,
      horizon.mayBeRemoved,
      retentionTime.currentHour,
      wallClock,
    ),
    ...horizon.operations,
    ...retentionTime.operations,
    ...createTransactionCreationWrites(database, wallClock, retentionTime.heldClock),
    ...createTransactionWrites(database),
    /** Answers when the writer does: for the health check. */
    ping(): void {},
    /** Succeeds when commits succeed: the disk has room, and no other program holds the lock. */
    tryCommit: (): void => writeOnePage(database),
    /** The count changes with each write and is stored by each commit: counting tens of millions of records would delay every commit. */
    countKeys: (): number => keyCount.records,
  };
}

export function readKeyCount(database: Database): { records: number } {
  return database.prepare('SELECT records FROM key_count').get() as { records: number };
}

export type WriteOperations = ReturnType<typeof createWriteOperations>;
export type WriteName = keyof WriteOperations;

/** What else travels between the threads, besides batches and their results as JSON. */
export const READY = 'ready';
/** Ready, on a backup that is started for the first time. */
export const READY_REPLACED = 'ready, replaced';
export const CLOSE = 'close';

/**
 * A batch: the names and, at the same places, what each operation takes. It travels as JSON text, because copying one text
 * between threads costs a fraction of copying a thousand small values. So a member that is `undefined` does not arrive.
 */
export interface WriteBatch {
  readonly names: readonly WriteName[];
  readonly inputs: readonly unknown[];
}

/** Results of a batch: the value of each operation, and the fault of each that failed. */
export interface WriteResults {
  readonly values: readonly unknown[];
  readonly faults?: readonly (WriteFault | undefined)[] | undefined;
  /** Of each commit that succeeded, milliseconds: one, unless it was run one by one. Reported with the first batch of the commit. */
  readonly commitsMs?: readonly number[];
}

/** Why an operation failed; only after `broken` it is not known whether it was written. */
export interface WriteFault {
  readonly fault: SqliteFault;
  readonly message: string;
}
