import { createPaymentWrites } from './payment-writes.js';
import type { Database } from './sqlite.js';
import { createTransactionWrites } from './transaction-writes.js';

/** Every operation that changes the database. They exist in the writer thread only; the main thread sees their types. */
export function createWriteOperations(database: Database, keyCount: { records: number }) {
  return {
    ...createPaymentWrites(database, keyCount),
    ...createTransactionWrites(database),
    /** Answers when the writer does: for the health check. */
    ping(): void {},
    /** Counted beside the writes, because a COUNT(*) over tens of millions of records would hold every commit up. */
    countKeys: (): number => keyCount.records,
  };
}

export type WriteOperations = ReturnType<typeof createWriteOperations>;
export type WriteName = keyof WriteOperations;

/** One operation of a batch, as it travels to the writer thread. */
export interface Write<N extends WriteName = WriteName> {
  readonly name: N;
  readonly parameters: Parameters<WriteOperations[N]>;
}

/** What became of one operation. `full` and `refused`: surely not written. `broken`: not known. */
export type WriteResult = { readonly value: unknown } | WriteFault;

export interface WriteFault {
  readonly fault: 'full' | 'refused' | 'broken';
  readonly message: string;
}
