// The embedded deployment with many payments: its database file, filled while no service runs on it.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import type { Opened } from '../../testkit/opened.js';
import { temporaryFolder } from '../servers.js';
import { hoursOf, type Plan, type Series, sqlOf } from './rows.js';
import type { GrowthStores } from './stores.js';

type Database = InstanceType<typeof DatabaseSync>;

const DIALECT = {
  hex: (value: string, digits: number) => `printf('%0${digits}x', ${value})`,
  padded: (value: string, digits: number) => `printf('%0${digits}d', ${value})`,
};
const NUMBERS = `WITH RECURSIVE numbers (n) AS (SELECT $first UNION ALL SELECT n + 1 FROM numbers WHERE n < $last)`;
const FILL_CACHE = 'PRAGMA cache_size = -1000000';
const MOVE_LOG = 'PRAGMA wal_checkpoint(TRUNCATE)';
const TABLES_OF_PAYMENTS = `SELECT name FROM sqlite_schema WHERE tbl_name = 'payments'`;

export async function openEmbeddedStores(opened: Opened): Promise<GrowthStores> {
  const dataDir = join(await temporaryFolder(opened), 'data');
  const path = join(dataDir, 'idempay.sqlite');

  /** Not while a service runs. */
  async function change(work: (database: Database) => void): Promise<void> {
    const database = new DatabaseSync(path);
    try {
      database.exec(FILL_CACHE);
      database.exec('BEGIN');
      work(database);
      database.exec('COMMIT');
      database.exec(MOVE_LOG);
    } finally {
      database.close();
    }
  }

  async function numberOf(query: string, ...values: number[]): Promise<number> {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const row = database.prepare(`SELECT (${query}) AS number`).get(...values) as { number: number };
      return row.number;
    } finally {
      database.close();
    }
  }

  const bytesOf = (names: string) =>
    numberOf(`SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = 1 AND name IN (${names})`);

  return {
    settings: { DATA_DIR: dataDir },
    parts: {},
    fill: (plan, templateKey) =>
      change((database) => {
        for (const series of [plan.old, plan.fresh]) fillPayments(database, plan, series, templateKey);
        fillKeys(database, plan, templateKey);
        database.exec(`UPDATE last_commit SET key_records = (SELECT count(*) FROM idempotency_keys)`);
      }),
    bytes: async () => ({
      paymentBytes: await bytesOf(TABLES_OF_PAYMENTS),
      payments: await numberOf('SELECT count(*) FROM payments'),
      keyBytes: await bytesOf(`'idempotency_keys'`),
      keys: await numberOf('SELECT count(*) FROM idempotency_keys'),
      onDisk: statSync(path).size,
    }),
    async restart() {},
    seeHours: (plan) => change((database) => writeHours(database, plan)),
    expireKeys: ({ fresh }, count, atMs) =>
      change((database) => {
        const keys = `SELECT key FROM idempotency_keys ORDER BY key LIMIT ${Math.min(count, fresh.count)}`;
        database.exec(`UPDATE idempotency_keys SET expires_at = ${atMs} WHERE key IN (${keys})`);
      }),
    /** Nothing to prepare: a payment that is old enough is removed by the first round. */
    async allowRemoval() {},
    countKeys: () => numberOf('SELECT records FROM key_count'),
    countOldPayments: ({ fresh }) => numberOf('SELECT count(*) FROM payments WHERE settled_at < ?', fresh.fromMs),
    /** SQLite keeps none unless it is told to. */
    async forgetStatistics() {},
    async gatherStatistics() {},
  };
}

function fillPayments(database: Database, { beganMs }: Plan, series: Series, templateKey: string): void {
  if (series.count === 0) return;
  const sql = sqlOf(series, beganMs, DIALECT);
  const values = {
    key: sql.key,
    transaction_id: sql.transactionId,
    lease_until: sql.timeMs,
    recover_at: sql.timeMs,
    claimed_at: sql.timeMs,
    settled_at: sql.timeMs,
    expires_at: sql.expiresMs,
    settled_hour: sql.hour,
  };
  insertLike(database, 'payments', values, { ...series, templateKey });
}

function fillKeys(database: Database, { beganMs, fresh }: Plan, templateKey: string): void {
  if (fresh.count === 0) return;
  const sql = sqlOf(fresh, beganMs, DIALECT);
  const values = { key: sql.key, value: sql.transactionId, expires_at: sql.expiresMs };
  insertLike(database, 'idempotency_keys', values, { ...fresh, templateKey });
}

/** A column that `values` does not name is as in the row of the template. */
function insertLike(
  database: Database,
  table: string,
  values: Readonly<Record<string, string>>,
  { first, count, templateKey }: Series & { readonly templateKey: string },
): void {
  const columns = database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all() as { name: string }[];
  const names = columns.map(({ name }) => name);
  const selected = names.map((name) => values[name] ?? `template.${name}`);
  database
    .prepare(
      `${NUMBERS} INSERT INTO ${table} (${names}) SELECT ${selected} FROM numbers, ${table} AS template WHERE template.key = $key`,
    )
    .run({ first, last: first + count - 1, key: templateKey });
}

function writeHours(database: Database, plan: Plan): void {
  database.exec('DELETE FROM retention_hours');
  const insert = database.prepare(
    'INSERT INTO retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms) VALUES (?, ?, ?, ?, ?)',
  );
  for (const { hour, fromMs, untilMs, lowestKeyMs, clockMs } of hoursOf(plan, Date.now())) {
    insert.run(hour, fromMs, untilMs, lowestKeyMs, clockMs);
  }
}
