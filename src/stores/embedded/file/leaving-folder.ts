import { systemClock } from '../../../platform/clock.js';
import {
  type ColumnKind,
  sumsOf,
  type TransferredDeployment,
  type TransferredRow,
  type TransferredTable,
  textOfSums,
  type UnpaidKey,
} from '../../shared/transferred-tables.js';
import { migrate, refuseForeignFile, refuseForeignSchema } from '../migrate.js';
import { readProcessorNames } from '../payments/processor-names.js';
import { StoreClock } from '../store-clock.js';
import { adopt, isRestored } from './adoption.js';
import { type ExclusiveFolder, takeExclusively } from './exclusive-folder.js';
import { readLastCommit } from './last-commit.js';
import { type LeavingMark, readMark } from './leaving-mark.js';
import { assertDurable, type Database, openForWriting } from './sqlite.js';
import { databaseIn } from './stopped-database.js';
import { assertLogBelongs } from './write-ahead-log.js';

const ID_PAGE = 10_000;

const LEAVE = 'UPDATE deployment SET transfer = ?, is_copied = 0';
const MARK_COPIED = 'UPDATE deployment SET is_copied = 1 WHERE transfer IS NOT NULL';
/** The next start treats the folder as restored, because services on the target may have charged since. */
const FREE = 'UPDATE deployment SET transfer = NULL, is_copied = 0, is_backup = 1';
const NUMBER_COMMIT = 'UPDATE last_commit SET number = number + 1';

/**
 * Columns of payments that become others. Leases end with the folder, and every claim under way is abandoned and due, as it would be at the
 * next start here. The charge is as old as the older of both clocks says.
 */
const PAYMENT_VALUES: Readonly<Record<string, string>> = {
  lease_until: "CASE state WHEN 'PROCESSING' THEN 0 ELSE lease_until END",
  recover_at:
    "CASE WHEN state = 'PROCESSING' AND pending_until IS NULL THEN min(claimed_at, claimed_at_wall) ELSE recover_at END",
  claimed_at: 'min(claimed_at, claimed_at_wall)',
  source: '(SELECT rtrim(kept.source) FROM payment_sources AS kept WHERE kept.key = payments.key)',
};

const DEPLOYMENT = `
  SELECT id, look_up_before AS lookUpBefore, look_up_references_until AS lookUpReferencesUntil, nullif(adopted_at, 0) AS adoptedAt,
    lost_ms AS lostMs, adopter
  FROM deployment`;

const UNPAID_KEYS = `
  SELECT key, client, reference, attempt, expires_at - ?1 AS lifeMs FROM idempotency_keys
  WHERE key > ?2 AND value = 'KEY GENERATED' AND expires_at > ?1 ORDER BY key LIMIT ?3`;

/**
 * Takes the folder of a deployment that is to leave it, or leaves it already, and changes nothing. Throws CannotOpen. `migrations`: a folder
 * in place of this version's files.
 */
export function openLeavingFolder(dataDir: string, migrations?: URL): LeavingFolder {
  const path = databaseIn(dataDir);
  const folder = takeExclusively(dataDir);
  try {
    refuseForeignFile(path, migrations);
    assertLogBelongs(path);
    const database = openForWriting(path);
    try {
      refuseForeignSchema(database, migrations);
      return new LeavingFolder(folder, database, migrations);
    } catch (error) {
      database.close();
      throw error;
    }
  } catch (error) {
    folder.release();
    throw error;
  }
}

/** A folder that this process has alone. Each change is one commit. */
export class LeavingFolder {
  readonly #folder: ExclusiveFolder;
  readonly #database: Database;
  readonly #migrations: URL | undefined;
  readonly #clock: StoreClock;

  constructor(folder: ExclusiveFolder, database: Database, migrations?: URL) {
    this.#folder = folder;
    this.#database = database;
    this.#migrations = migrations;
    const { clockMs } = readLastCommit(database);
    this.#clock = new StoreClock(systemClock, Math.max(clockMs, folder.remembered?.clockMs ?? 0));
  }

  get mark(): LeavingMark | undefined {
    return readMark(this.#database);
  }

  get deployment(): TransferredDeployment {
    const row = this.#database.prepare(DEPLOYMENT).get() as unknown as TransferredDeployment;
    const { used, beforeLoss } = readProcessorNames(this.#database);
    return { ...row, processors: used, processorsBeforeLoss: beforeLoss ?? null };
  }

  /** The time of the last commit: no settlement is later, and no reader has read further. Milliseconds since the epoch. */
  get clockMs(): number {
    return readLastCommit(this.#database).clockMs;
  }

  /** True if the folder lacks commits that followed the copy of it. */
  get isRestored(): boolean {
    return isRestored(this.#database, readLastCommit(this.#database), this.#folder.remembered);
  }

  /** Brings the schema up to date, before anything is read that an earlier version may not have. The number of the last commit stays. */
  migrate(): void {
    migrate(this.#database, this.#migrations);
  }

  /** The first commit of a transfer. A folder that is a restored copy is adopted first, because only a start or this can tell. */
  leave(name: string): void {
    if (!this.mark && this.isRestored) {
      adopt(this.#database, this.#clock.now());
      this.#remember();
    }
    this.#commit(LEAVE, name);
  }

  markCopied(): void {
    this.#commit(MARK_COPIED);
  }

  /** The next start is that of a restored folder. */
  free(): void {
    this.#commit(FREE);
  }

  count({ name }: TransferredTable): number {
    const row = this.#database.prepare(`SELECT count(*) AS count FROM ${name}`).get() as { count: number };
    return row.count;
  }

  /** The next rows in the order of the key, after the row with these values of it. */
  rows(table: TransferredTable, after: readonly (string | number)[] | undefined, limit: number): TransferredRow[] {
    const key = table.key.join(', ');
    const behind = after ? `WHERE (${key}) > (${table.key.map(() => '?').join(', ')})` : '';
    const text = `SELECT ${valuesOf(table)} FROM ${table.name} ${behind} ${key && `ORDER BY ${key}`} LIMIT ?`;
    return this.#database.prepare(text).all(...(after ?? []), limit) as unknown as TransferredRow[];
  }

  sums(table: TransferredTable): string {
    const text = sumsOf(table, `(SELECT ${valuesOf(table)} FROM ${table.name})`, integerOf);
    return textOfSums(this.#database.prepare(text).all() as object[]);
  }

  /** The ids of all transactions, rising, in pages. */
  *transactionIds(): Generator<readonly number[]> {
    const page = this.#database.prepare('SELECT id FROM transactions WHERE id > ? ORDER BY id LIMIT ?');
    for (let after = 0; ; ) {
      const ids = (page.all(after, ID_PAGE) as { id: number }[]).map(({ id }) => id);
      yield ids;
      if (ids.length < ID_PAGE) return;
      after = ids.at(-1) ?? after;
    }
  }

  unpaidKeys(after: string, limit: number): UnpaidKey[] {
    return this.#database.prepare(UNPAID_KEYS).all(this.#clock.now(), after, limit) as unknown as UnpaidKey[];
  }

  close(): void {
    try {
      this.#database.close();
    } finally {
      this.#folder.release();
    }
  }

  #commit(change: string, ...values: string[]): void {
    this.#folder.assertHeld();
    this.#database.exec('BEGIN IMMEDIATE');
    this.#database.prepare(change).run(...values);
    this.#database.exec(`${NUMBER_COMMIT}; COMMIT`);
    assertDurable(this.#database);
    this.#remember();
  }

  #remember(): void {
    this.#folder.remember(readLastCommit(this.#database));
    this.#folder.sync('always');
  }
}

function valuesOf({ name, columns }: TransferredTable): string {
  const values = name === 'payments' ? PAYMENT_VALUES : {};
  return Object.entries(columns)
    .map(([column, kind]) => {
      if (kind === 'large integer') return `CAST(${column} AS TEXT) AS ${column}`;
      return values[column] ? `${values[column]} AS ${column}` : column;
    })
    .join(', ');
}

function integerOf(column: string, kind: ColumnKind): string | undefined {
  if (kind === 'decimal') return `CAST(replace(${column}, '.', '') AS INTEGER)`;
  if (kind === 'large integer') return `CAST(${column} AS INTEGER)`;
  return kind === 'integer' || kind === 'time' || kind === 'flag' ? column : undefined;
}
