// The embedded deployment with many payments: its database file, filled while no service runs on it.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { hoursOf, sqlOf } from './rows.mjs';

const DIALECT = {
  hex: (value, digits) => `printf('%0${digits}x', ${value})`,
  padded: (value, digits) => `printf('%0${digits}d', ${value})`,
};
const NUMBERS = `WITH RECURSIVE numbers (n) AS (SELECT $first UNION ALL SELECT n + 1 FROM numbers WHERE n < $last)`;
const FILL_CACHE = 'PRAGMA cache_size = -1000000';
const MOVE_LOG = 'PRAGMA wal_checkpoint(TRUNCATE)';

/** @param {string} folder that the deployment lives in */
export async function openEmbeddedStores(folder) {
  const dataDir = join(folder, 'data');
  const path = join(dataDir, 'idempay.sqlite');

  /** Not while a service runs. */
  function within(work) {
    const database = new DatabaseSync(path);
    try {
      database.exec(FILL_CACHE);
      const result = work(database);
      database.exec(MOVE_LOG);
      return result;
    } finally {
      database.close();
    }
  }

  function bytesOf(database, names) {
    const [{ bytes }] = database
      .prepare(`SELECT coalesce(sum(pgsize), 0) AS bytes FROM dbstat WHERE aggregate = 1 AND name IN (${names})`)
      .all();
    return bytes;
  }

  return {
    settings: { DATA_DIR: dataDir },
    parts: {},

    /** Rows like the one that the service wrote under `templateKey`, as `plan` says. */
    async fill(plan, templateKey) {
      within((database) => {
        database.exec('BEGIN');
        for (const series of [plan.old, plan.fresh]) fillPayments(database, plan, series, templateKey);
        fillKeys(database, plan, templateKey);
        database.exec(`UPDATE last_commit SET key_records = (SELECT count(*) FROM idempotency_keys)`);
        database.exec('COMMIT');
      });
    },

    /** On the disk. */
    async bytes() {
      return within((database) => {
        const ofPayments = `SELECT name FROM sqlite_schema WHERE tbl_name = 'payments'`;
        return {
          paymentBytes: bytesOf(database, ofPayments),
          payments: countOf(database, 'payments'),
          keyBytes: bytesOf(database, `'idempotency_keys'`),
          keys: countOf(database, 'idempotency_keys'),
          fileBytes: statSync(path).size,
        };
      });
    },

    /** As if a process had run all the time until now. */
    seeHours: async (plan) => within((database) => writeHours(database, plan)),

    /** The records of the first `count` payments end at `atMs`. */
    async expireKeys({ fresh }, count, atMs) {
      within((database) => {
        const keys = `SELECT key FROM idempotency_keys ORDER BY key LIMIT ${Math.min(count, fresh.count)}`;
        database.exec(`UPDATE idempotency_keys SET expires_at = ${atMs} WHERE key IN (${keys})`);
      });
    },

    /** Nothing to prepare: a payment that is old enough is removed by the first round. */
    async allowRemoval() {},

    /** How many are there now; also while a service runs. */
    async counter() {
      const database = new DatabaseSync(path, { readOnly: true });
      const keys = database.prepare('SELECT key_records AS count FROM last_commit');
      const old = database.prepare('SELECT count(*) AS count FROM payments WHERE settled_at < ?');
      return {
        keys: async () => keys.get().count,
        oldPayments: async ({ fresh }) => old.get(fresh.fromMs).count,
        close: async () => database.close(),
      };
    },

    /** SQLite keeps none unless it is told to. */
    async forgetStatistics() {},
    async gatherStatistics() {},

    async stop() {},
  };
}

function fillPayments(database, { beganMs }, series, templateKey) {
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
  insertLike(database, 'payments', values, series, templateKey);
}

function fillKeys(database, { beganMs, fresh }, templateKey) {
  if (fresh.count === 0) return;
  const sql = sqlOf(fresh, beganMs, DIALECT);
  const values = { key: sql.key, value: sql.transactionId, expires_at: sql.expiresMs };
  insertLike(database, 'idempotency_keys', values, fresh, templateKey);
}

/** What `values` does not name is as in the row of the template. */
function insertLike(database, table, values, { first, count }, templateKey) {
  const columns = database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all();
  const names = columns.map(({ name }) => name);
  const selected = names.map((name) => values[name] ?? `template.${name}`);
  database
    .prepare(
      `${NUMBERS} INSERT INTO ${table} (${names}) SELECT ${selected} FROM numbers, ${table} AS template WHERE template.key = $key`,
    )
    .run({ first, last: first + count - 1, key: templateKey });
}

function writeHours(database, plan) {
  database.exec('DELETE FROM retention_hours');
  const insert = database.prepare(
    'INSERT INTO retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms) VALUES (?, ?, ?, ?, ?)',
  );
  for (const { hour, fromMs, untilMs, lowestKeyMs, clockMs } of hoursOf(plan, Date.now())) {
    insert.run(hour, fromMs, untilMs, lowestKeyMs, clockMs);
  }
}

function countOf(database, table) {
  return database.prepare(`SELECT count(*) AS count FROM ${table}`).get().count;
}
