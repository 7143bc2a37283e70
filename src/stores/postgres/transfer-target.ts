import { Client, type Notification } from 'pg';
import { CannotOpen } from '../shared/deployment.js';
import { refuseForeign } from '../shared/found-schema.js';
import { CLOCKS_DIFFER_MS } from '../shared/replaced-database.js';
import {
  type ColumnKind,
  sumsOf,
  type TransferredDeployment,
  type TransferredRow,
  type TransferredTable,
  textOfSums,
} from '../shared/transferred-tables.js';
import { primaryUrl } from './connection/address.js';
import { RIGHTS_ADVICE } from './connection/checks.js';
import { ADOPT, beginIncarnation } from './connection/database-identity-statements.js';
import { LIMITS_OF_COMMAND } from './connection/session.js';
import { migrate, OTHER_SCHEMA, readSchema } from './migrate.js';
import { FIND_TRANSFER, type Transfer } from './transfer-state.js';

const CONNECT_TIMEOUT_MS = 5_000;

/** Nothing is written after the transfer was given up, because that waits for this lock. */
const HOLD = "SELECT FROM idempay.transfer WHERE name = $1 AND state = 'COPYING' FOR UPDATE";

const COMPLETE = `
  UPDATE idempay.transfer SET state = 'COMPLETE' WHERE name = $1 AND state IN ('COPYING', 'COMPLETE') RETURNING state`;

/** The change is made a second time too, because the first commit may not be on the standby. */
const GIVE_UP = "UPDATE idempay.transfer SET state = 'GIVEN UP' WHERE name = $1 AND state <> 'STARTED' RETURNING state";

const SET_DEPLOYMENT = `
  UPDATE idempay.deployment SET id = sent.id, look_up_before = sent."lookUpBefore",
    look_up_references_until = sent."lookUpReferencesUntil", adopted_at = ${timeOf('sent."adoptedAt"')},
    lost_ms = sent."lostMs", processors = sent.processors, processors_before_loss = sent."processorsBeforeLoss",
    adopter = sent.adopter
  FROM json_to_record($1::json) AS sent (id text, "lookUpBefore" uuid, "lookUpReferencesUntil" bigint, "adoptedAt" bigint,
    "lostMs" float8, processors text[], "processorsBeforeLoss" text[], adopter text)`;

/** Columns that only PostgreSQL has. Marks of unsent payments end with the generation, so a cancellation asks the processor as well. */
const OWN_COLUMNS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  payments: { generation: '0' },
  payment_horizon: { only_row: 'true', removable_before: 'keys_before', seen_at: 'clock_timestamp()' },
  transaction_list: { only_row: 'true' },
};

const MOST_IDS = 10_000;
/** By the table's `id` and not the output's, a float8 that no index is ordered by. */
const ID_PAGE = 'SELECT id::float8 AS id FROM idempay.transactions WHERE id > $1 ORDER BY transactions.id LIMIT $2';

/** The schema is made in the database, or in a schema of that name that another user made for us. */
const WRITABLE = `
  SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly",
    coalesce(has_schema_privilege(to_regnamespace('idempay')::oid, 'CREATE'),
      has_database_privilege(current_database(), 'CREATE')) AS "mayCreate"`;

/** Settlements get their times from this server's clock from now on, and readers have read up to `$1`. */
const BEGIN_BEHIND = beginIncarnation(`clock_timestamp() <= ${timeOf('$1::float8')}`);

/**
 * Connects to the database that a transfer copies into, and changes nothing there yet. Throws CannotOpen. Other faults are the driver's,
 * and leave the last commit unknown; the next run finds it or makes it.
 */
export async function openTransferTarget(databaseUrl: string): Promise<TransferTarget> {
  // A stale primary may say that no service has started on it.
  const primary = await primaryUrl(databaseUrl, true);
  const client = new Client({
    connectionString: primary,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: 'idempay-transfer',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await refuseOtherClock(client);
    return new TransferTarget(primary, client);
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

/** The age of a charge is judged by the database's clock from now on, and with a wrong age a charge is sent again too late. */
async function refuseOtherClock(client: Client): Promise<void> {
  const { rows } = await client.query<{ now: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
  );
  const differMs = Math.abs((rows[0]?.now ?? 0) - Date.now());
  if (differMs <= CLOCKS_DIFFER_MS) return;
  throw new CannotOpen(
    `The clocks of this machine and of PostgreSQL differ by ${Math.round(differMs / 1_000)} s, and nothing was changed. Set both by NTP, because the age of a payment decides whether it may be sent again.`,
  );
}

/** The database of a transfer, over one connection. */
export class TransferTarget {
  readonly #databaseUrl: string;
  readonly #client: Client;
  #isStandbyWaitCancelled = false;

  constructor(databaseUrl: string, client: Client) {
    this.#databaseUrl = databaseUrl;
    this.#client = client;
    client.on('notice', (notice: Notification | { routine?: string }) => {
      if ('routine' in notice && notice.routine === 'SyncRepWaitForLSN') this.#isStandbyWaitCancelled = true;
    });
  }

  /**
   * The transfer that made the database; 'in use' if none did. Throws CannotOpen if another version made the schema. `migrations`: a folder
   * in place of this version's files.
   */
  async find(migrations?: URL): Promise<Transfer | 'empty' | 'in use'> {
    const schema = await readSchema(this.#client, migrations);
    if (schema.isEmpty) return 'empty';
    refuseForeign(schema, ...OTHER_SCHEMA);
    const { rows } = await this.#client.query<Transfer>(FIND_TRANSFER.text);
    if (!rows[0]) return 'in use';
    if (schema.pending.length > 0) throw earlierVersion();
    return rows[0];
  }

  /** Throws CannotOpen if this user cannot make the schema here. Nothing is changed. */
  async refuseUnwritable(): Promise<void> {
    const { rows } = await this.#client.query<Record<'isStandby' | 'isReadOnly' | 'mayCreate', boolean>>(WRITABLE);
    const { isStandby, isReadOnly, mayCreate } = rows[0] ?? {};
    if (isStandby) throw unwritable('the server is a standby. Name the primary');
    if (isReadOnly) {
      throw unwritable('the user or the database is set to read only (default_transaction_read_only). Turn that off');
    }
    if (!mayCreate) throw unwritable(`the user may not make the schema idempay. ${RIGHTS_ADVICE}`);
  }

  /** Makes the schema, and the row of the transfer in the same commit. Throws CannotOpen if there is a schema. */
  create(name: string): Promise<void> {
    return migrate(this.#databaseUrl, undefined, undefined, name);
  }

  /**
   * The key of the last row that was copied; undefined if none was. The order is that of the primary key, and not that of the output's
   * texts, which a collation of the database may sort in another way.
   */
  async last({ name, key }: TransferredTable): Promise<readonly string[] | undefined> {
    const newest = key.map((column) => `${name}.${column} DESC`).join(', ');
    const columns = key.map((column) => `${column}::text`).join(', ');
    const text = `SELECT ${columns} FROM idempay.${name} ORDER BY ${newest} LIMIT 1`;
    const { rows } = await this.#inTransaction(() => this.#client.query({ text, rowMode: 'array' }));
    return rows[0] as unknown as readonly string[] | undefined;
  }

  async count({ name }: TransferredTable): Promise<number> {
    const { rows } = await this.#inTransaction(() =>
      this.#client.query<{ count: number }>(`SELECT count(*)::integer AS count FROM idempay.${name}`),
    );
    return rows[0]?.count ?? 0;
  }

  /** One commit. Throws CannotOpen if the transfer was given up. */
  async copy(transfer: string, table: TransferredTable, rows: readonly TransferredRow[]): Promise<void> {
    await this.#whileCopying(transfer, () => this.#insert(table, rows));
  }

  /**
   * All that is not copied in batches, in one commit, which may be repeated. The server is written down before its deployment is: so
   * nothing counts as lost, and another server will count as one that replaced it.
   */
  async copyRest(
    transfer: string,
    deployment: TransferredDeployment,
    tables: ReadonlyMap<TransferredTable, readonly TransferredRow[]>,
  ): Promise<void> {
    await this.#whileCopying(transfer, async () => {
      await this.#client.query(ADOPT.text, [null, 0]);
      await this.#client.query(SET_DEPLOYMENT, [JSON.stringify(deployment)]);
      for (const [table, rows] of tables) {
        await this.#client.query(`DELETE FROM idempay.${table.name}`);
        await this.#insert(table, rows);
      }
    });
  }

  async sums(table: TransferredTable): Promise<string> {
    const text = sumsOf(table, `idempay.${table.name}`, integerOf);
    return textOfSums((await this.#inTransaction(() => this.#client.query(text))).rows);
  }

  /**
   * For the feed of settlements, after the comparison: if this server's clock is behind `clockMs`, the folder's last time, another incarnation
   * begins. Otherwise a reader would pass over the settlements of the time in between.
   */
  async beginSettlementsBehind(clockMs: number): Promise<void> {
    await this.#inTransaction(() => this.#client.query(BEGIN_BEHIND, [clockMs]));
  }

  /** The ids of all transactions, rising, in pages. */
  async *transactionIds(): AsyncGenerator<readonly number[]> {
    for (let after = 0; ; ) {
      const { rows } = await this.#inTransaction(() => this.#client.query<{ id: number }>(ID_PAGE, [after, MOST_IDS]));
      yield rows.map(({ id }) => id);
      if (rows.length < MOST_IDS) return;
      after = rows.at(-1)?.id ?? after;
    }
  }

  /** From now on a service may start. Throws CannotOpen if the transfer was given up. */
  async complete(transfer: string): Promise<void> {
    if (!(await this.#change(COMPLETE, transfer))) throw givenUp();
  }

  /** False if a service has started: then nothing was changed. */
  giveUp(transfer: string): Promise<boolean> {
    return this.#change(GIVE_UP, transfer);
  }

  /** Rolls back what is not committed. */
  async close(): Promise<void> {
    await this.#client.end().catch(() => {});
  }

  async #change(text: string, transfer: string): Promise<boolean> {
    this.#isStandbyWaitCancelled = false;
    const { rowCount } = await this.#client.query(text, [transfer]);
    if (this.#isStandbyWaitCancelled) {
      throw new CannotOpen(
        'The wait of PostgreSQL for its synchronous standby was cancelled, so a failover could undo this step. Run the command again.',
      );
    }
    return rowCount === 1;
  }

  #whileCopying(transfer: string, write: () => Promise<void>): Promise<void> {
    return this.#inTransaction(async () => {
      if ((await this.#client.query(HOLD, [transfer])).rowCount !== 1) throw givenUp();
      await write();
    });
  }

  async #inTransaction<Result>(work: () => Promise<Result>): Promise<Result> {
    await this.#client.query(`BEGIN; ${LIMITS_OF_COMMAND}`);
    try {
      const result = await work();
      const { command } = await this.#client.query('COMMIT');
      if (command !== 'COMMIT') throw new Error('PostgreSQL rolled a batch back');
      return result;
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => {});
      throw error;
    }
  }

  async #insert({ name, columns }: TransferredTable, rows: readonly TransferredRow[]): Promise<void> {
    const own = OWN_COLUMNS[name] ?? {};
    const kinds = Object.entries(columns);
    const text = `
      INSERT INTO idempay.${name} (${[...Object.keys(columns), ...Object.keys(own)].join(', ')})
      SELECT ${[...kinds.map(([column, kind]) => readAs(column, kind)), ...Object.values(own)].join(', ')}
      FROM json_to_recordset($1::json) AS sent (${kinds.map(([column, kind]) => `${column} ${SENT[kind]}`).join(', ')})`;
    await this.#client.query({ name: `copy_${name}`, text, values: [JSON.stringify(rows)] });
  }
}

const unwritable = (found: string) =>
  new CannotOpen(`DATABASE_URL: nothing can be copied there, and nothing was changed: ${found}.`);

const earlierVersion = () =>
  new CannotOpen(
    'An earlier version of Idempay began the transfer into the database of DATABASE_URL, and nothing was changed. Go on with that version, or take the folder back with it (idempay transfer --cancel).',
  );

const givenUp = () =>
  new CannotOpen('This transfer was given up (idempay transfer --cancel), and nothing more was copied.');

/** The type by which a value of JSON is read. */
const SENT: Readonly<Record<ColumnKind, string>> = {
  text: 'text',
  uuid: 'uuid',
  integer: 'bigint',
  'large integer': 'bigint',
  decimal: 'numeric',
  time: 'bigint',
  flag: 'integer',
  json: 'text',
};

function readAs(column: string, kind: ColumnKind): string {
  if (kind === 'time') return timeOf(column);
  if (kind === 'flag') return `${column} = 1`;
  return kind === 'json' ? `${column}::jsonb` : column;
}

function timeOf(ms: string): string {
  return `'epoch'::timestamptz + ${ms} * interval '1 millisecond'`;
}

function integerOf(column: string, kind: ColumnKind): string | undefined {
  if (kind === 'decimal') return `replace(${column}::text, '.', '')::bigint`;
  if (kind === 'time') return `(extract(epoch FROM ${column}) * 1000)::bigint`;
  if (kind === 'flag') return `${column}::integer`;
  return kind === 'integer' || kind === 'large integer' ? column : undefined;
}
