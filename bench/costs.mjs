// What a run costs besides time: CPU time of every process that takes part, round trips and bytes of the stores, commits and
// write-ahead log. Two readings of a meter, one before and one after, give the costs of what happened between them.
//
//   const meter = await openMeter({ service: [service], redis: [redis], postgres: [postgres], processor: [processor] });
//   const before = await meter.read();
//   ...
//   const costs = perOperation(between(before, await meter.read()), operations);
//   await meter.close();
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import pg from 'pg';

/** Of the kernel, in whole pages. */
const DISK_BYTES = /^write_bytes: (\d+)$/m;
const CALLS_OF_COMMAND = /^cmdstat_([^:]+):calls=(\d+)/gm;
const ROUND_TRIPS = /^idempay_store_round_trip_seconds_count\{(.*)\} (\d+)$/gm;
const REDIS_CALLS = /^idempay_store_batch_size_sum\{[^}]*store="redis"[^}]*\} (\d+)$/gm;
const COMMITS = /^idempay_store_commit_seconds_count (\d+)$/m;

/** The log and the transaction ids are exact at once. The rest each connection reports once a second while it works, or after 10 s of rest. */
const POSTGRES_COSTS = `
  SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS "walBytes",
    pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS "writingTransactions",
    wal.wal_sync::float8 AS "walSyncs", wal.wal_fpi::float8 AS "fullPages",
    (db.xact_commit + db.xact_rollback)::float8 AS "transactions",
    db.tup_inserted::float8 AS "rowsInserted", db.tup_updated::float8 AS "rowsUpdated",
    db.tup_deleted::float8 AS "rowsDeleted", db.tup_fetched::float8 AS "rowsFetched",
    db.blks_read::float8 AS "blocksRead"
  FROM pg_stat_wal AS wal, pg_stat_database AS db WHERE db.datname = current_database()`;
const EXACT = ['walBytes', 'writingTransactions'];

/**
 * @typedef {object} Measured
 * @property {() => number} cpuUs  of all its processes and threads since it started
 * @property {string} [url]  where it answers
 * @property {number} [pid]
 *
 * @typedef {{ [name: string]: number | Costs }} Costs  plain numbers, nested by what they belong to
 *
 * @typedef {object} Meter
 * @property {() => Promise<Costs>} read  everything, since the servers began
 * @property {() => Record<string, number>} cpuUs  only the CPU time, by part; it asks nobody
 * @property {() => Promise<void>} close
 */

/**
 * Opens a connection of its own to each store: what a reading asks is among what it counts, a few commands each time.
 * @param {Record<string, Measured[]>} parts  by name. The names `service`, `redis` and `postgres` are also asked what they
 *   counted, and must have a `url`; of any other only the CPU time is known. Several of one name are added up
 * @returns {Promise<Meter>}
 */
export async function openMeter(parts) {
  const { service = [], redis = [], postgres = [] } = parts;
  const redisClients = redis.map(({ url }) => new Redis(url, { enableAutoPipelining: false }));
  const postgresClients = postgres.map(({ url }) => new pg.Client({ connectionString: url }));
  await Promise.all(postgresClients.map((client) => client.connect()));

  const cpuUs = () =>
    Object.fromEntries(
      Object.entries(parts).map(([name, list]) => [name, list.reduce((sum, { cpuUs }) => sum + cpuUs(), 0)]),
    );
  const readAll = async (list, read) =>
    list.length === 0 ? undefined : (await Promise.all(list.map(read))).reduce(plus);
  return {
    cpuUs,
    async read() {
      const cpu = cpuUs();
      const [ofService, ofRedis, ofPostgres] = await Promise.all([
        readAll(service, readService),
        readAll(redisClients, readRedis),
        readAll(postgresClients, readPostgres),
      ]);
      return withoutAbsent({ cpuUs: cpu, service: ofService, redis: ofRedis, postgres: ofPostgres });
    },
    async close() {
      for (const client of redisClients) client.disconnect();
      await Promise.all(postgresClients.map((client) => client.end()));
    },
  };
}

/** What the later reading has more than the earlier one. */
export function between(before, after) {
  return combine(after, before, (late, early) => late - early);
}

/** @returns {Costs} the same for one operation of `count` */
export function perOperation(costs, count) {
  return combine(costs, costs, (cost) => cost / count);
}

function plus(one, other) {
  return combine(one, other, (a, b) => a + b);
}

/** Of every number of either; what one of them does not have is 0 there. */
function combine(one = {}, other = {}, operation) {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries(
    Array.from(names, (name) => {
      const [a, b] = [one[name], other[name]];
      const isNested = typeof (a ?? b) === 'object';
      return [name, isNested ? combine(a, b, operation) : operation(a ?? 0, b ?? 0)];
    }),
  );
}

/** As the service counts them (docs/operations.md). A batch is one round trip, of any number of calls; `commits` are those of the embedded store. */
async function readService({ url, pid }) {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const roundTrips = {};
  for (const [, labels, count] of metrics.matchAll(ROUND_TRIPS)) {
    const [, store] = /store="([^"]*)"/.exec(labels) ?? [];
    const [, operation] = /operation="([^"]*)"/.exec(labels) ?? [];
    if (count !== '0') roundTrips[`${store} ${operation}`] = Number(count);
  }
  return withoutAbsent({
    roundTrips,
    redisCalls: Array.from(metrics.matchAll(REDIS_CALLS)).reduce((all, [, calls]) => all + Number(calls), 0),
    commits: Number(COMMITS.exec(metrics)?.[1] ?? 0) || undefined,
    diskBytes: pid === undefined ? undefined : diskBytesOf(pid),
  });
}

function diskBytesOf(pid) {
  try {
    return Number(DISK_BYTES.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);
  } catch {
    // Not everywhere may a process read this of another one.
    return undefined;
  }
}

/** `reads`: how often it was given something to do, so a pipeline that came in one piece is one. */
async function readRedis(client) {
  const stats = await client.info('stats');
  const numberOf = (name) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(stats)?.[1]);
  const calls = {};
  // Also what a script calls.
  for (const [, command, count] of (await client.info('commandstats')).matchAll(CALLS_OF_COMMAND)) {
    calls[command] = Number(count);
  }
  return {
    commands: numberOf('total_commands_processed'),
    reads: numberOf('total_reads_processed'),
    bytesIn: numberOf('total_net_input_bytes'),
    bytesOut: numberOf('total_net_output_bytes'),
    calls,
  };
}

async function readPostgres(client) {
  const { rows } = await client.query(POSTGRES_COSTS);
  const entries = Object.entries(rows[0]);
  const [exact, reported] = [true, false].map((wanted) => entries.filter(([name]) => EXACT.includes(name) === wanted));
  return { ...Object.fromEntries(exact), reported: Object.fromEntries(reported) };
}

function withoutAbsent(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
