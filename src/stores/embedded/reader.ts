import { StoreUnavailable } from '../../platform/faults.js';
import { type Permit, Permits } from '../shared/permits.js';
import { type Database, openForLists, openForReading, readOrReport, sqliteVersion } from './file/sqlite.js';
import { ListReads } from './list-reads.js';

/**
 * Lists read at the same time, each in a snapshot of its own; more wait for one to end. Enough that some dozens of clients that
 * stall keep nobody waiting; each snapshot has two file descriptors and a page cache.
 */
const MAX_SNAPSHOTS = 128;
/** Connections kept for the lists to come. Each has file descriptors and a page cache of its own. */
const KEPT_IDLE = 4;

export interface PreparedRead {
  get(...parameters: readonly (string | number | null)[]): unknown;
  all(...parameters: readonly (string | number | null)[]): unknown[];
}

/** Connections for lists, each of which sees the database as it was at one moment. */
export interface Snapshots {
  begin(): Database;
  end(database: Database): void;
  close(): void;
}

/** A connection whose statements all see the database as it was at one moment. */
export interface SnapshotConnection {
  prepare(sql: string): PreparedRead;
  readonly permit: Pick<Permit, 'isWanted' | 'isOwed' | 'lengthen'>;
  close(): void;
}

/**
 * Reads on the main thread: a keyed read takes microseconds, less than sending it to a thread would. In WAL mode each
 * statement sees every commit that was acknowledged before it, and never waits for the writer.
 */
export class Reader {
  readonly sqliteVersion: string;
  private readonly permits = new Permits(MAX_SNAPSHOTS);
  /** The pages of all lists, of payments and of transactions. */
  readonly listReads = new ListReads();

  constructor(
    private readonly database: Database,
    private readonly snapshots: Snapshots,
    private readonly onBroken: (error: Error) => void,
  ) {
    this.sqliteVersion = sqliteVersion(database);
  }

  static ofFile(path: string, onBroken: (error: Error) => void): Reader {
    return new Reader(openForReading(path), new FileSnapshots(path), onBroken);
  }

  prepare(sql: string): PreparedRead {
    return this.prepareOn(this.database, sql);
  }

  /** Waits for a free connection; StoreUnavailable when none gets free in time. */
  async openSnapshot(client?: string, long?: number | 'at the end'): Promise<SnapshotConnection> {
    const permit = await this.permits.take(client, long);
    const database = this.begin(permit);
    let open = true;
    return {
      prepare: (sql) => whileOpen(this.prepareOn(database, sql), () => open),
      permit,
      close: () => {
        if (!open) return;
        open = false;
        permit.release();
        this.snapshots.end(database);
      },
    };
  }

  close(): void {
    this.snapshots.close();
    this.database.close();
  }

  private prepareOn(database: Database, sql: string): PreparedRead {
    const statement = readOrReport(() => database.prepare(sql), this.onBroken);
    return {
      get: (...parameters) => readOrReport(() => statement.get(...parameters), this.onBroken),
      all: (...parameters) => readOrReport(() => statement.all(...parameters), this.onBroken),
    };
  }

  private begin(permit: Permit): Database {
    try {
      return readOrReport(() => this.snapshots.begin(), this.onBroken);
    } catch (fault) {
      permit.release();
      throw fault;
    }
  }
}

class FileSnapshots implements Snapshots {
  private readonly idle: Database[] = [];

  constructor(private readonly path: string) {}

  begin(): Database {
    const database = this.idle.pop() ?? openForLists(this.path);
    database.exec('BEGIN');
    return database;
  }

  end(database: Database): void {
    try {
      database.exec('COMMIT');
      if (this.idle.length < KEPT_IDLE) this.idle.push(database);
      else database.close();
    } catch {
      // The rows that were read have been answered or refused already; the connection is of no more use.
      database.close();
    }
  }

  close(): void {
    for (const database of this.idle) database.close();
  }
}

/** Refuses reads after the snapshot was closed: its connection may be closed too, or serve another list. */
function whileOpen(read: PreparedRead, isOpen: () => boolean): PreparedRead {
  const assertOpen = () => {
    if (!isOpen()) throw new StoreUnavailable('unchanged', 'the snapshot was closed');
  };
  return {
    get(...parameters) {
      assertOpen();
      return read.get(...parameters);
    },
    all(...parameters) {
      assertOpen();
      return read.all(...parameters);
    },
  };
}
