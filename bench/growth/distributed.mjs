// The distributed deployment with many payments: its own PostgreSQL and Redis, filled by themselves.
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { startPostgres, startRedis } from '../servers.mjs';
import { hoursOf, luaOf, sqlOf } from './rows.mjs';

const DIALECT = {
  hex: (value, digits) => `lpad(to_hex(${value}), ${digits}, '0')`,
  padded: (value, digits) => `lpad((${value})::text, ${digits}, '0')`,
};
const RECORDS_IN_A_SCRIPT = 20_000;
const ROWS_IN_A_STATEMENT = 500_000;
const POLL_MS = 500;
const SIZE_OF = `SELECT pg_total_relation_size('idempay.payments')::float8 AS bytes, count(*)::float8 AS count FROM idempay.payments`;

/** A record like the template's for each number from ARGV[1] to ARGV[2]. KEYS: the template. ARGV[3] is what names begin with. */
const fillScript = (series) => `
  local fields = redis.call('HGETALL', KEYS[1])
  local value_at, expiry_at
  for i = 1, #fields, 2 do
    if fields[i] == 'value' then value_at = i + 1 end
    if fields[i] == 'expires_at' then expiry_at = i + 1 end
  end
  for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    ${luaOf(series)}
    fields[value_at] = transaction_id
    if expiry_at then fields[expiry_at] = expires_ms end
    local name = ARGV[3] .. '{' .. key .. '}'
    redis.call('HSET', name, unpack(fields))
    redis.call('PEXPIREAT', name, expires_ms)
  end`;

const expireScript = (series) => `
  for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    ${luaOf(series)}
    redis.call('PEXPIREAT', ARGV[3] .. '{' .. key .. '}', ARGV[4])
  end`;

/** @param {string} folder that the servers keep their data in */
export async function openDistributedStores(folder) {
  const places = { redis: join(folder, 'redis'), postgres: join(folder, 'postgres') };
  for (const place of Object.values(places)) await mkdir(place, { recursive: true });
  // PostgreSQL may run as another user, and has to get to its own folder.
  await chmod(folder, 0o711);
  const redis = await startRedis({ folder: places.redis });
  const postgres = await startPostgres({ folder: places.postgres });
  const records = new Redis(redis.url);
  const database = new pg.Client({ connectionString: postgres.url });
  await database.connect();
  let emptyRedisBytes = 0;

  async function namesBegin() {
    const { rows } = await database.query('SELECT id FROM idempay.deployment');
    return `idempay:${rows[0].id}:`;
  }

  async function inParts({ first, count }, size, work) {
    for (let done = 0; done < count; done += size) await work(first + done, first + Math.min(done + size, count) - 1);
  }

  async function fillPayments({ beganMs }, series, templateKey) {
    if (series.count === 0) return;
    const sql = sqlOf(series, beganMs, DIALECT);
    const time = `to_timestamp(${sql.timeMs} / 1000.0)`;
    const values = {
      key: `(${sql.key})::uuid`,
      transaction_id: sql.transactionId,
      lease_until: time,
      recover_at: time,
      claimed_at: time,
      settled_at: time,
      expires_at: `to_timestamp(${sql.expiresMs} / 1000.0)`,
      settled_hour: sql.hour,
    };
    const { fields } = await database.query('SELECT * FROM idempay.payments LIMIT 0');
    const names = fields.map(({ name }) => name);
    const selected = names.map((name) => values[name] ?? `template.${name}`);
    await inParts(series, ROWS_IN_A_STATEMENT, (from, to) =>
      database.query(
        `INSERT INTO idempay.payments (${names}) SELECT ${selected}
         FROM generate_series($1::bigint, $2::bigint) AS n, idempay.payments AS template WHERE template.key = $3`,
        [from, to, templateKey],
      ),
    );
  }

  async function fillKeys({ fresh }, templateKey) {
    if (fresh.count === 0) return;
    const prefix = await namesBegin();
    const script = fillScript(fresh);
    await inParts(fresh, RECORDS_IN_A_SCRIPT, (from, to) =>
      records.eval(script, 1, `${prefix}{${templateKey}}`, from, to, prefix),
    );
  }

  async function writeHours(plan) {
    await database.query('DELETE FROM idempay.retention_hours');
    for (const { hour, fromMs, untilMs, lowestKeyMs, clockMs } of hoursOf(plan, Date.now())) {
      await database.query(
        'INSERT INTO idempay.retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms) VALUES ($1, $2, $3, $4, $5)',
        [hour, fromMs, untilMs, lowestKeyMs, clockMs],
      );
    }
  }

  async function redisNumber(section, name) {
    return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(await records.info(section))?.[1]);
  }

  return {
    settings: { REDIS_URL: redis.url, DATABASE_URL: postgres.url },
    parts: { redis, postgres },

    async fill(plan, templateKey) {
      emptyRedisBytes = await redisNumber('memory', 'used_memory');
      for (const series of [plan.old, plan.fresh]) await fillPayments(plan, series, templateKey);
      await fillKeys(plan, templateKey);
      await rewriteRedisLog();
    },

    async bytes() {
      const { rows } = await database.query(SIZE_OF);
      return {
        paymentBytes: rows[0].bytes,
        payments: rows[0].count,
        keyBytes: (await redisNumber('memory', 'used_memory')) - emptyRedisBytes,
        keys: await records.dbsize(),
        redisDiskBytes: await redisNumber('persistence', 'aof_base_size'),
      };
    },

    seeHours: writeHours,

    async expireKeys({ fresh }, count, atMs) {
      const prefix = await namesBegin();
      const script = expireScript(fresh);
      await inParts({ first: fresh.first, count: Math.min(count, fresh.count) }, RECORDS_IN_A_SCRIPT, (from, to) =>
        records.eval(script, 0, from, to, prefix, atMs),
      );
    },

    /** Else it would come two rounds, so two minutes, after the first round raised the horizon for claims. */
    async allowRemoval({ fresh }) {
      const bound = fresh.fromMs.toString(16).padStart(12, '0');
      await database.query(
        `UPDATE idempay.payment_horizon SET keys_before = $1, removable_before = $1, seen_at = to_timestamp(0)`,
        [`${bound.slice(0, 8)}-${bound.slice(8)}-7000-8000-000000000000`],
      );
    },

    async counter() {
      return {
        keys: () => records.dbsize(),
        async oldPayments({ fresh }) {
          const { rows } = await database.query(
            'SELECT count(*)::int AS count FROM idempay.payments WHERE settled_at < to_timestamp($1 / 1000.0)',
            [fresh.fromMs],
          );
          return rows[0].count;
        },
        async close() {},
      };
    },

    /** As after a restore: no statistics, and nobody gathers them. */
    async forgetStatistics() {
      await database.query('ALTER TABLE idempay.payments SET (autovacuum_enabled = off)');
    },
    async gatherStatistics() {
      await database.query('ALTER TABLE idempay.payments RESET (autovacuum_enabled)');
      await database.query('VACUUM (ANALYZE) idempay.payments');
    },

    async stop() {
      records.disconnect();
      await database.end();
      await redis.stop();
      await postgres.stop();
    },
  };

  async function rewriteRedisLog() {
    while ((await redisNumber('persistence', 'aof_rewrite_in_progress')) === 1) await delay(POLL_MS);
    await records.bgrewriteaof();
    do await delay(POLL_MS);
    while ((await redisNumber('persistence', 'aof_rewrite_in_progress')) === 1);
  }
}
