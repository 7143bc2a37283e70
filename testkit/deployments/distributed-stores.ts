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
  /** Proxies before both servers, which a test damages, and the settings of a process that uses them. */
  readonly wires: {
    readonly redis: TcpProxy;
    readonly postgres: TcpProxy;
    readonly environment: { readonly REDIS_URL: string; readonly DATABASE_URL: string };
  };
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
  return { ...(await manage(redis, databaseUrl, () => postgres.close())), postgres };
}

/** How a request that executes this named statement looks on the wire to PostgreSQL: the end of a Bind message's names. */
export function executionOf(statement: string): string {
  return `\0${statement}\0`;
}

async function manage(
  redis: RedisServer,
  databaseUrl: string,
  remove: () => Promise<unknown>,
): Promise<DistributedStores> {
  const toRedis = await startTcpProxy(redis.port);
  const toPostgres = await startTcpProxy(Number(new URL(databaseUrl).port));
  const stores = manageStores({ REDIS_URL: redis.url, DATABASE_URL: databaseUrl }, () =>
    Promise.all([redis.close(), remove(), toRedis.close(), toPostgres.close()]),
  );
  return {
    ...stores,
    redis,
    databaseUrl,
    wires: {
      redis: toRedis,
      postgres: toPostgres,
      environment: { REDIS_URL: toRedis.through(redis.url), DATABASE_URL: toPostgres.through(databaseUrl) },
    },
    sql: (text, values) => runSql(databaseUrl, text, values),
    async keyNames() {
      const [row] = await runSql<{ id: string }>(databaseUrl, 'SELECT id FROM idempay.deployment');
      return createKeyNames(row?.id ?? '');
    },
  };
}
