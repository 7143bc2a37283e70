import pg from 'pg';
import { createKeyNames, type KeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { type Service, startService } from '../processes/service.js';
import { type PostgresServer, startPostgres } from '../servers/postgres.js';
import { type RedisServer, startRedis } from '../servers/redis.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { startTcpProxy, type TcpProxy } from '../servers/tcp-proxy.js';

/** As `compose.yaml` runs Redis: what it acknowledged survives the end of its process. */
export const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

/** Servers of the test's own and any number of service processes on them. */
export interface DistributedStores {
  readonly redis: RedisServer;
  readonly databaseUrl: string;
  readonly environment: Record<string, string>;
  start(environment?: Record<string, string>): Promise<Service>;
  /** What the rows say, past all service processes. */
  sql<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** What these stores' keys are called in Redis. Once a process has been started. */
  keyNames(): Promise<KeyNames>;
  /** Ends every process started here that still runs, a paused one too, then the servers. */
  close(): Promise<void>;
}

/** On a database in the server that all tests share, which must be left running. */
export async function openDistributedStores(redisSettings: readonly string[] = []): Promise<DistributedStores> {
  const [redis, database] = await Promise.all([startRedis(redisSettings), createSharedDatabase()]);
  return manage(redis, database.url, () => database.drop());
}

/** With a PostgreSQL server that the test may stop; its commits wait for the disk as in production. */
export async function openStoppableStores(
  redisSettings: readonly string[] = [],
): Promise<DistributedStores & { readonly postgres: PostgresServer }> {
  const [redis, postgres] = await Promise.all([startRedis(redisSettings), startPostgres()]);
  const databaseUrl = await postgres.createDatabase('idempay');
  return { ...manage(redis, databaseUrl, () => postgres.close()), postgres };
}

/** The wires to both servers of these stores, and the settings of a process that uses them. */
export async function openWires(
  stores: DistributedStores,
): Promise<{ redis: TcpProxy; postgres: TcpProxy; environment: Record<string, string>; close(): Promise<void> }> {
  const redis = await startTcpProxy(stores.redis.port);
  const postgres = await startTcpProxy(Number(new URL(stores.databaseUrl).port));
  return {
    redis,
    postgres,
    environment: { REDIS_URL: redis.through(stores.redis.url), DATABASE_URL: postgres.through(stores.databaseUrl) },
    async close() {
      await Promise.all([redis.close(), postgres.close()]);
    },
  };
}

/** How a request that executes this named statement looks on the wire to PostgreSQL: the end of a Bind message's names. */
export function executionOf(statement: string): string {
  return `\0${statement}\0`;
}

function manage(redis: RedisServer, databaseUrl: string, remove: () => Promise<void>): DistributedStores {
  const started: Service[] = [];
  const environment = { REDIS_URL: redis.url, DATABASE_URL: databaseUrl };

  async function sql<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    try {
      return (await client.query<Row>(text, [...values])).rows;
    } finally {
      await client.end();
    }
  }

  return {
    redis,
    databaseUrl,
    environment,
    async start(more = {}) {
      const service = await startService({ ...environment, ...more });
      started.push(service);
      return service;
    },
    sql,
    async keyNames() {
      const [row] = await sql<{ id: string }>('SELECT id FROM idempay.deployment');
      return createKeyNames(row?.id ?? '');
    },
    async close() {
      await Promise.all(started.map((service) => service.kill()));
      await Promise.all([redis.close(), remove()]);
    },
  };
}
