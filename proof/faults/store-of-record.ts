import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { runCommand } from '../../testkit/processes/command.js';
import { COPIES, DUMPS, type Restore } from '../../testkit/servers/postgres-backups.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';

/** What is set back to the moment of a backup, while no service runs. */
export interface StoreOfRecord {
  readonly backups: Readonly<Record<string, () => Promise<Restore>>>;
  transactions(): Promise<TransactionRow[]>;
  paymentKeys(): Promise<ReadonlySet<string>>;
}

export interface TransactionRow {
  readonly id: number;
  readonly status: string;
  readonly from: string;
  readonly to: string;
}

const BUSY_TIMEOUT_MS = 5_000;
const DUMP = 'a dump, restored with pg_restore --clean';
const COPY = 'a base backup, started without recovery';

export function databaseOfRecord(postgres: PostgresUnderFault): StoreOfRecord {
  return {
    backups: { [DUMP]: () => postgres.backUp(DUMPS[DUMP]), [COPY]: () => postgres.backUp(COPIES[COPY]) },
    transactions: () => postgres.transactions(),
    paymentKeys: () => postgres.paymentKeys(),
  };
}

export function folderOfRecord(dataDir: string): StoreOfRecord {
  const database = join(dataDir, 'idempay.sqlite');
  const withDatabase = <T>(use: (opened: DatabaseSyncInstance) => T): T => {
    const opened = new DatabaseSync(database, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
    try {
      return use(opened);
    } finally {
      opened.close();
    }
  };
  const read = <Row>(text: string) => withDatabase((opened) => opened.prepare(text).all() as Row[]);
  /** Another folder: the one of the service may be on a disk that is filled up. */
  const backedUp = async (write: (file: string) => unknown): Promise<Restore> => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-backup-'));
    const file = join(folder, 'copy.sqlite');
    await write(file);
    return async () => {
      for (const suffix of ['', '-wal', '-shm']) await rm(database + suffix, { force: true });
      await copyFile(file, database);
      await rm(folder, { recursive: true });
    };
  };
  return {
    backups: {
      'idempay backup, put back': () =>
        backedUp(async (file) => {
          const { code, stderr } = await runCommand('', ['backup', file], { DATA_DIR: dataDir });
          if (code !== 0) throw new Error(`idempay backup ended with ${code}: ${stderr}`);
        }),
      // Nothing in it says that it is a copy.
      'VACUUM INTO by another program, put back': () =>
        backedUp((file) => withDatabase((opened) => opened.prepare('VACUUM INTO ?').run(file))),
    },
    transactions: async () => read('SELECT id, status, from_account AS "from", to_account AS "to" FROM transactions'),
    paymentKeys: async () => new Set(read<{ key: string }>('SELECT key FROM payments').map(({ key }) => key)),
  };
}
