import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runCommand } from '../../testkit/processes/command.js';
import { ROOT } from '../../testkit/programs.js';
import { COPIES, DUMPS, type Restore } from '../../testkit/servers/postgres-backups.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';

/** The database that a restore sets back to the moment of a backup, while no service runs. */
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

const run = promisify(execFile);
const QUERY = join(ROOT, 'testkit', 'processes', 'query-sqlite.mjs');
const MOST_OUTPUT_BYTES = 100_000_000;
const DATABASE = 'idempay.sqlite';
const DUMP = 'a dump, restored with pg_restore --clean';
const COPY = 'a base backup, started without recovery';

export function databaseOfRecord(postgres: PostgresUnderFault): StoreOfRecord {
  return {
    backups: { [DUMP]: () => postgres.backUp(DUMPS[DUMP]), [COPY]: () => postgres.backUp(COPIES[COPY]) },
    transactions: () => postgres.transactions(),
    paymentKeys: () => postgres.paymentKeys(),
  };
}

/** `fromOutside`: the folder as this process sees it; `launcher`: what makes a program see it as `dataDir`. */
export function folderOfRecord(
  dataDir: string,
  fromOutside = dataDir,
  launcher: readonly string[] = [],
): StoreOfRecord {
  const database = join(dataDir, DATABASE);
  const query = async <Row>(statement: string, ...values: string[]): Promise<Row[]> => {
    const [program = '', ...parameters] = [...launcher, process.execPath, QUERY, database, statement, ...values];
    const { stdout } = await run(program, parameters, { maxBuffer: MOST_OUTPUT_BYTES });
    return JSON.parse(stdout);
  };
  const backedUp = async (write: (file: string) => Promise<unknown>): Promise<Restore> => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-backup-'));
    const file = join(folder, 'copy.sqlite');
    await write(file);
    return async () => {
      const replaced = join(fromOutside, DATABASE);
      for (const suffix of ['', '-wal', '-shm']) await rm(replaced + suffix, { force: true });
      await copyFile(file, replaced);
      await rm(folder, { recursive: true });
    };
  };
  return {
    backups: {
      'idempay backup, put back': () =>
        backedUp(async (file) => {
          const { code, stderr } = await runCommand('', ['backup', file], { DATA_DIR: dataDir }, launcher);
          if (code !== 0) throw new Error(`idempay backup ended with ${code}: ${stderr}`);
        }),
      // Nothing in it says that it is a copy.
      'VACUUM INTO by another program, put back': () => backedUp((file) => query('VACUUM INTO ?', file)),
    },
    transactions: () => query('SELECT id, status, from_account AS "from", to_account AS "to" FROM transactions'),
    async paymentKeys() {
      const rows = await query<{ key: string }>('SELECT key FROM payments');
      return new Set(rows.map(({ key }) => key));
    },
  };
}
