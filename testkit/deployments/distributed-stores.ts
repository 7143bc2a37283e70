import type pg from 'pg';
import { createKeyNames, type KeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { type PostgresServer, startPostgres } from '../servers/postgres.js';
import { type RedisServer, startRedis } from '../servers/redis.js';
import { runSql } from '../servers/run-sql.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { startTcpProxy, type TcpProxy } from '../servers/tcp-proxy.js';
import { manageStores, type Stores } from './deployments.js';

/** As `compose.yaml` runs Redis: what it acknowledged survives the end of its process. */
export const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

/** Servers of the test's own and any number of services on them. */
export interface DistributedStores extends Stores {
  readonly redis: RedisServer;
  readonly databaseUrl: string;
  /** What the rows say, past all services. */
  sql<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** What these stores' keys are called in Redis. Once a service has been started. */
  keyNames(): Promise<KeyNames>;
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

/** Wires to both servers, which a test damages. */
export interface Wires {
  readonly redis: TcpProxy;
  readonly postgres: TcpProxy;
  /** The settings of a process that uses them. */
  readonly environment: { readonly REDIS_URL: string; readonly DATABASE_URL: string };
  close(): Promise<void>;
}

export async function openWires(stores: Pick<DistributedStores, 'redis' | 'databaseUrl'>): Promise<Wires> {
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

function manage(redis: RedisServer, databaseUrl: string, remove: () => Promise<unknown>): DistributedStores {
  const stores = manageStores({ REDIS_URL: redis.url, DATABASE_URL: databaseUrl }, async () => {
    await Promise.all([redis.close(), remove()]);
  });
  return {
    ...stores,
    redis,
    databaseUrl,
    sql: (text, values) => runSql(databaseUrl, text, values),
    async keyNames() {
      const [row] = await runSql<{ id: string }>(databaseUrl, 'SELECT id FROM idempay.deployment');
      return createKeyNames(row?.id ?? '');
    },
  };
}
