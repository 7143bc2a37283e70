import { DatabaseSync } from '@photostructure/sqlite';
import { migrate } from '#idempay/deployments/embedded/migrate.js';
import type { PreparedRead } from '#idempay/deployments/embedded/reader.js';
import type { Database } from '#idempay/deployments/embedded/sqlite.js';
import {
  createWriteOperations,
  type WriteName,
  type WriteOperations,
} from '#idempay/deployments/embedded/write-operations.js';

const EMPTY = `
  DELETE FROM payments; DELETE FROM idempotency_keys; DELETE FROM transactions;
  DELETE FROM transaction_removals;
  UPDATE transaction_list SET last_id = 100000000000000, version = 0, last_removal_version = 0, removals = 0,
    previous_removal_version = 0`;

let shared: { readonly database: Database; readonly reads: Map<string, PreparedRead> } | undefined;

/**
 * The real schema and the real statements of the embedded deployment, in memory. Histories are run one after the other, so
 * one database serves them all: each begins with it empty. Each operation is a commit of its own.
 */
export class EmbeddedDatabase {
  private readonly operations: WriteOperations;
  private readonly reads: Map<string, PreparedRead>;
  private readonly database: Database;

  /** Times are written to the disk in whole milliseconds. */
  constructor(wallClock: () => number) {
    if (!shared) {
      const database = new DatabaseSync(':memory:');
      migrate(database);
      shared = { database, reads: new Map() };
    }
    ({ database: this.database, reads: this.reads } = shared);
    this.database.exec(EMPTY);
    this.operations = createWriteOperations(this.database, { records: 0 }, () => Math.floor(wallClock()));
  }

  /** As the writer thread does it: what is sent to it and back travels as JSON. */
  write(name: WriteName, input?: unknown): unknown {
    const operation = this.operations[name] as (input: unknown) => unknown;
    return throughJson(operation(throughJson(input)));
  }

  prepare(sql: string): PreparedRead {
    let read = this.reads.get(sql);
    if (!read) {
      const statement = this.database.prepare(sql);
      read = {
        get: (...parameters) => statement.get(...parameters) as object | undefined,
        all: (...parameters) => statement.all(...parameters) as object[],
      };
      this.reads.set(sql, read);
    }
    return read;
  }
}

function throughJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
