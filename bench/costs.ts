// The costs of a run besides time: CPU time of every process that takes part, round trips and bytes of the stores, commits and write-ahead
// log. Two readings of a meter, one before and one after, give the costs of what happened between them.
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import pg from 'pg';
import { type Sample, scrape, sumOf } from '../testkit/client/metrics.js';
import type { Opened } from '../testkit/opened.js';

/** Counted by the kernel, in whole pages. */
const DISK_BYTES = /^write_bytes: (\d+)$/m;
const ROUND_TRIPS = 'idempay_store_round_trip_seconds_count';
const REDIS_CALLS = 'idempay_store_batch_size_sum';
const COMMITS = 'idempay_store_commit_seconds_count';

/** The log and the transaction ids: both are exact at once, unlike PostgreSQL's statistics. */
const POSTGRES_COSTS = `
  SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS "walBytes",
    pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS "writingTransactions"`;

export interface Measured {
  /** CPU time of all its processes and threads since it started. */
  cpuUs(): number;
}
/** A server that counts nothing has no `service`: only its CPU time is known. */
interface MeasuredServer extends Measured {
  readonly service?: Readonly<{ url: string; pid: number }>;
}
type MeasuredStore = Measured & Readonly<{ url: string }>;

export interface Parts {
  readonly service: readonly MeasuredServer[];
  readonly redis?: readonly MeasuredStore[];
  readonly postgres?: readonly MeasuredStore[];
  readonly processor?: readonly Measured[];
}

/**
 * As the service counts them (docs/operations/operations.md). A batch is one round trip, of any number of calls; `commits` are the embedded
 * store's commits.
 */
interface ServiceCosts {
  /** By store and operation, such as `redis begin`. */
  readonly roundTrips: Readonly<Record<string, number>>;
  readonly redisCalls: number;
  readonly commits: number;
  readonly diskBytes: number;
}

export interface Costs {
  readonly cpuUs: Record<string, number>;
  readonly service?: ServiceCosts;
  /** `reads`: how often it was given something to do, so a pipeline that came in one piece is one. */
  readonly redis?: Readonly<Record<'reads' | 'bytesIn' | 'bytesOut', number>>;
  readonly postgres?: Readonly<Record<'walBytes' | 'writingTransactions', number>>;
}

export interface Meter {
  /** Everything, since the servers began. */
  read(): Promise<Costs>;
}

/**
 * Opens a connection of its own to each store: what a reading asks is among what it counts, a few commands each time. Several
 * servers of one part are added up.
 */
export async function openMeter(opened: Opened, parts: Parts): Promise<Meter> {
  const { service, redis = [], postgres = [] } = parts;
  const redisClients = redis.map(({ url }) => new Redis(url));
  const postgresClients = postgres.map(({ url }) => new pg.Client({ connectionString: url }));
  await opened.keep({
    close: async () => {
      for (const client of redisClients) client.disconnect();
      await Promise.all(postgresClients.map((client) => client.end()));
    },
  });
  await Promise.all(postgresClients.map((client) => client.connect()));
  const services = service.flatMap((server) => server.service ?? []);
  const ofParts = Object.entries(parts) as [string, readonly Measured[]][];
  return {
    async read() {
      const cpuUs = Object.fromEntries(
        ofParts.map(([name, list]) => [name, list.reduce((sum, { cpuUs }) => sum + cpuUs(), 0)]),
      );
      const [ofService, ofRedis, ofPostgres] = await Promise.all([
        readAll(services, readService),
        readAll(redisClients, readRedis),
        readAll(postgresClients, readPostgres),
      ]);
      return {
        cpuUs,
        ...(ofService && { service: ofService }),
        ...(ofRedis && { redis: ofRedis }),
        ...(ofPostgres && { postgres: ofPostgres }),
      };
    },
  };
}

async function readAll<T, R extends object>(list: readonly T[], read: (each: T) => Promise<R>): Promise<R | undefined> {
  if (list.length === 0) return undefined;
  return (await Promise.all(list.map(read))).reduce((one, other) => combine(one, other, (a, b) => a + b));
}

/** The difference of the later reading to the earlier one. */
export function between<T extends object>(before: T, after: T): T {
  return combine(after, before, (late, early) => late - early);
}

/** The same for one operation of `count`. */
export function perOperation<T extends object>(costs: T, count: number): T {
  return combine(costs, costs, (cost) => cost / count);
}

type Tree = Readonly<{ [name: string]: number | Tree }>;
type Operation = (a: number, b: number) => number;

/** Combines every number that one of the two has; a number that the other lacks counts as 0. */
function combine<T extends object>(one: T, other: T, operation: Operation): T {
  return combineTrees(one as unknown as Tree, other as unknown as Tree, operation) as unknown as T;
}

function combineTrees(one: Tree, other: Tree, operation: Operation): Tree {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  const combined = (a: number | Tree | undefined, b: number | Tree | undefined) =>
    typeof a === 'object' || typeof b === 'object'
      ? combineTrees((a ?? {}) as Tree, (b ?? {}) as Tree, operation)
      : operation(a ?? 0, b ?? 0);
  return Object.fromEntries(Array.from(names, (name) => [name, combined(one[name], other[name])]));
}

async function readService({ url, pid }: NonNullable<MeasuredServer['service']>): Promise<ServiceCosts> {
  const samples = await scrape(url);
  return {
    roundTrips: roundTripsIn(samples),
    redisCalls: sumOf(samples, REDIS_CALLS, { store: 'redis' }),
    commits: sumOf(samples, COMMITS),
    diskBytes: diskBytesOf(pid),
  };
}

function roundTripsIn(samples: readonly Sample[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name, labels, value } of samples) {
    if (name !== ROUND_TRIPS || value === 0) continue;
    const operation = `${labels.store} ${labels.operation}`;
    counts[operation] = (counts[operation] ?? 0) + value;
  }
  return counts;
}

/** 0 if a process may not read this of another one. */
function diskBytesOf(pid: number): number {
  try {
    return Number(DISK_BYTES.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);
  } catch {
    return 0;
  }
}

async function readRedis(client: Redis) {
  const stats = await client.info('stats');
  const numberOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(stats)?.[1]);
  return {
    reads: numberOf('total_reads_processed'),
    bytesIn: numberOf('total_net_input_bytes'),
    bytesOut: numberOf('total_net_output_bytes'),
  };
}

async function readPostgres(client: pg.Client) {
  const { rows } = await client.query<Record<'walBytes' | 'writingTransactions', number>>(POSTGRES_COSTS);
  const [{ walBytes, writingTransactions } = { walBytes: 0, writingTransactions: 0 }] = rows;
  return { walBytes, writingTransactions };
}
