// The distributed deployment with many payments: its own PostgreSQL and Redis, filled by themselves.
import type { Opened } from '../../testkit/opened.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { until } from '../../testkit/time/until.js';
import { openPostgres, openRedis, type PostgresStore, type RedisStore } from '../servers.js';
import { hoursOf, luaOf, type Plan, type Series, sqlOf } from './rows.js';
import type { GrowthStores } from './stores.js';

const DIALECT = {
  hex: (value: string, digits: number) => `lpad(to_hex(${value}), ${digits}, '0')`,
  padded: (value: string, digits: number) => `lpad((${value})::text, ${digits}, '0')`,
};
const RECORDS_IN_A_SCRIPT = 20_000;
const ROWS_IN_A_STATEMENT = 500_000;
/** Ten million keys take 40 s to write. */
const REWRITE_DEADLINE_MS = 300_000;
const SIZE_OF = `SELECT pg_total_relation_size('idempay.payments')::float8 AS bytes, count(*)::float8 AS count FROM idempay.payments`;

/** A record like the template's for each number from ARGV[1] to ARGV[2]. KEYS: the template. ARGV[3] is what names begin with. */
const fillScript = (series: Series) => `
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

const expireScript = (series: Series) => `
  for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    ${luaOf(series)}
    redis.call('PEXPIREAT', ARGV[3] .. '{' .. key .. '}', ARGV[4])
  end`;

export async function openDistributedStores(opened: Opened): Promise<GrowthStores> {
  const [redis, postgres] = [await openRedis(opened), await openPostgres(opened)];
  const keys = new Keys(redis, postgres);
  return {
    settings: { REDIS_URL: redis.url, DATABASE_URL: postgres.url },
    parts: { redis, postgres },
    async fill(plan, templateKey) {
      for (const series of [plan.old, plan.fresh]) await fillPayments(postgres, plan, series, templateKey);
      await keys.fill(plan, templateKey);
    },
    async bytes() {
      const [size] = await runSql<{ bytes: number; count: number }>(postgres.url, SIZE_OF);
      const { bytes: paymentBytes = 0, count: payments = 0 } = size ?? {};
      return { paymentBytes, payments, ...(await keys.bytes()) };
    },
    async restart() {
      await redis.kill();
      await redis.start();
      // Otherwise the next start replays the log of the whole filling.
      await runSql(postgres.url, 'CHECKPOINT');
      await postgres.stopImmediately();
      await postgres.start();
    },
    async seeHours(plan) {
      await runSql(postgres.url, 'DELETE FROM idempay.retention_hours');
      for (const { hour, fromMs, untilMs, lowestKeyMs, clockMs } of hoursOf(plan, Date.now())) {
        await runSql(
          postgres.url,
          'INSERT INTO idempay.retention_hours (hour, from_ms, until_ms, lowest_key_ms, clock_ms) VALUES ($1, $2, $3, $4, $5)',
          [hour, fromMs, untilMs, lowestKeyMs, clockMs],
        );
      }
    },
    expireKeys: ({ fresh }, count, atMs) => keys.expire(fresh, count, atMs),
    /** Otherwise it would come two rounds, so two minutes, after the first round raised the horizon for claims. */
    async allowRemoval({ fresh }) {
      const bound = fresh.fromMs.toString(16).padStart(12, '0');
      await runSql(
        postgres.url,
        `UPDATE idempay.payment_horizon SET keys_before = $1, removable_before = $1, seen_at = to_timestamp(0)`,
        [`${bound.slice(0, 8)}-${bound.slice(8)}-7000-8000-000000000000`],
      );
    },
    countKeys: () => redis.client.dbsize(),
    async countOldPayments({ fresh }) {
      const [row] = await runSql<{ count: number }>(
        postgres.url,
        'SELECT count(*)::int AS count FROM idempay.payments WHERE settled_at < to_timestamp($1 / 1000.0)',
        [fresh.fromMs],
      );
      return row?.count ?? 0;
    },
    async forgetStatistics() {
      await runSql(postgres.url, 'ALTER TABLE idempay.payments SET (autovacuum_enabled = off)');
    },
    async gatherStatistics() {
      await runSql(postgres.url, 'ALTER TABLE idempay.payments RESET (autovacuum_enabled)');
      await runSql(postgres.url, 'VACUUM (ANALYZE) idempay.payments');
    },
  };
}

async function fillPayments(
  { url }: PostgresStore,
  { beganMs }: Plan,
  series: Series,
  templateKey: string,
): Promise<void> {
  if (series.count === 0) return;
  const sql = sqlOf(series, beganMs, DIALECT);
  const time = `to_timestamp(${sql.timeMs} / 1000.0)`;
  const values: Readonly<Record<string, string>> = {
    key: `(${sql.key})::uuid`,
    transaction_id: sql.transactionId,
    lease_until: time,
    recover_at: time,
    claimed_at: time,
    settled_at: time,
    expires_at: `to_timestamp(${sql.expiresMs} / 1000.0)`,
    settled_hour: sql.hour,
  };
  const columns = await runSql<{ name: string }>(
    url,
    `SELECT attname AS name FROM pg_attribute
     WHERE attrelid = 'idempay.payments'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
  );
  const names = columns.map(({ name }) => name);
  const selected = names.map((name) => values[name] ?? `template.${name}`);
  await inParts(series, ROWS_IN_A_STATEMENT, (from, to) =>
    runSql(
      url,
      `INSERT INTO idempay.payments (${names}) SELECT ${selected}
       FROM generate_series($1::bigint, $2::bigint) AS n, idempay.payments AS template WHERE template.key = $3`,
      [from, to, templateKey],
    ),
  );
}

async function inParts(
  { first, count }: Pick<Series, 'first' | 'count'>,
  size: number,
  work: (from: number, to: number) => Promise<unknown>,
): Promise<void> {
  for (let done = 0; done < count; done += size) await work(first + done, first + Math.min(done + size, count) - 1);
}

/** The records of Redis. */
class Keys {
  #emptyBytes = 0;

  constructor(
    private readonly redis: RedisStore,
    private readonly postgres: PostgresStore,
  ) {}

  async fill({ fresh }: Plan, templateKey: string): Promise<void> {
    this.#emptyBytes = await this.#number('memory', 'used_memory');
    const [prefix, script] = [await this.#namesBegin(), fillScript(fresh)];
    await inParts(fresh, RECORDS_IN_A_SCRIPT, (from, to) =>
      this.redis.client.eval(script, 1, `${prefix}{${templateKey}}`, from, to, prefix),
    );
    await this.#rewriteLog();
  }

  async expire(fresh: Series, count: number, atMs: number): Promise<void> {
    const [prefix, script] = [await this.#namesBegin(), expireScript(fresh)];
    await inParts({ first: fresh.first, count: Math.min(count, fresh.count) }, RECORDS_IN_A_SCRIPT, (from, to) =>
      this.redis.client.eval(script, 0, from, to, prefix, atMs),
    );
  }

  async bytes() {
    return {
      keyBytes: (await this.#number('memory', 'used_memory')) - this.#emptyBytes,
      keys: await this.redis.client.dbsize(),
      onDisk: await this.#number('persistence', 'aof_base_size'),
    };
  }

  async #namesBegin(): Promise<string> {
    const [row] = await runSql<{ id: string }>(this.postgres.url, 'SELECT id FROM idempay.deployment');
    return `idempay:${row?.id}:`;
  }

  async #rewriteLog(): Promise<void> {
    const isDone = async () => (await this.#number('persistence', 'aof_rewrite_in_progress')) === 0;
    await until('Redis to have written its log', REWRITE_DEADLINE_MS, isDone);
    await this.redis.client.bgrewriteaof();
    await until('Redis to have written its log anew', REWRITE_DEADLINE_MS, isDone);
  }

  async #number(section: string, name: string): Promise<number> {
    return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(await this.redis.client.info(section))?.[1]);
  }
}
