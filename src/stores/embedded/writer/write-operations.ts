import type { LastCommit } from '../file/last-commit.js';
import type { Database, SqliteFault } from '../file/sqlite.js';
import { createKeyRecords } from '../key-records.js';
import { createClaimEnds } from '../payments/claim-ends.js';
import { createClaims, type LedgerWriteParts } from '../payments/claims.js';
import { createPaymentSources } from '../payments/payment-sources.js';
import { createProcessorNameWrites } from '../payments/processor-names.js';
import { createRefundClaims } from '../payments/refund-claims.js';
import { createPaymentHorizon, createRetentionTime } from '../payments/retention.js';
import type { SentTime } from '../store-clock.js';
import { createTransactionChanges } from '../transactions/transaction-changes.js';
import { createTransactionCreations } from '../transactions/transaction-creations.js';
import { createEndpointWrites } from '../webhooks/endpoint-row-writes.js';

/**
 * Every operation that changes the database. They exist in the writer thread only; the main thread sees their types. `storeClock`
 * is the clock of every time that is written to the disk, in whole milliseconds since the epoch.
 */
export function createWriteOperations(
  database: Database,
  lastCommit: Pick<LastCommit, 'keyRecords' | 'demand'>,
  storeClock: () => number,
) {
  const horizon = createPaymentHorizon(database, storeClock);
  const retentionTime = createRetentionTime(database, storeClock, horizon.keysFromMs);
  const keyRecords = createKeyRecords(database, lastCommit, storeClock, retentionTime.heldClock);
  const parts: LedgerWriteParts = {
    sources: createPaymentSources(database),
    recordOutcome: keyRecords.recordOutcome,
    forgetRecord: keyRecords.forgetRecord,
    mayBeRemoved: horizon.mayBeRemoved,
    currentHour: retentionTime.currentHour,
    storeClock,
    passTime: () => lastCommit.demand(),
  };
  return {
    ...keyRecords.operations,
    ...createClaims(database, parts),
    ...createClaimEnds(database, parts),
    ...createRefundClaims(database, parts),
    ...horizon.operations,
    ...retentionTime.operations,
    ...createTransactionCreations(database, storeClock, retentionTime.heldClock),
    ...createTransactionChanges(database),
    ...createProcessorNameWrites(database),
    ...createEndpointWrites(database, storeClock),
    /** Answers when the writer does: for the health check. */
    ping(): void {},
    /** Succeeds when commits succeed: the disk has room, and no other program holds the lock. */
    tryCommit: (): void => lastCommit.demand(),
    /** Writes a time past this one, so that no later clock is before it. */
    passTime: ({ pastMs }: { pastMs: number }): void => lastCommit.demand(pastMs),
    /** The count changes with each write and is stored by each commit: counting tens of millions of records would delay every commit. */
    countKeys: (): number => lastCommit.keyRecords,
  };
}

export type WriteOperations = ReturnType<typeof createWriteOperations>;
export type WriteName = keyof WriteOperations;

/** The message that ends the thread. All other messages to it are batches, as JSON. */
export const CLOSE = 'close';

/** The first message of the thread. */
export interface Ready {
  /** The database is a restored copy that was adopted at this start. */
  readonly wasRestored: boolean;
  /** The last time that it wrote, milliseconds since the epoch. */
  readonly clockMs: number;
  /** The store's clock. */
  readonly now: SentTime;
}

/** The data that the thread is started with. */
export interface WriterThreadData {
  readonly dataDir: string;
  readonly wallClock: SentTime;
  /** The address of a folder of migrations in place of this version's. */
  readonly migrations?: string | undefined;
}

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
  /** How long each commit took that succeeded, in milliseconds: one, unless the operations were run one by one. Reported with the first batch of the commit. */
  readonly commitsMs?: readonly number[];
  /** The last time that a commit wrote. Reported with the first batch of the commit. */
  readonly clockMs?: number | undefined;
}

/** Why an operation failed; only after `broken` it is not known whether it was written. */
export interface WriteFault {
  readonly fault: SqliteFault;
  readonly message: string;
}
