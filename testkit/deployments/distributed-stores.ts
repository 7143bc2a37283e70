import type pg from 'pg';
import { onTestFinished } from 'vitest';
import { createKeyNames, type KeyNames } from '#idempay/stores/redis/key-names.js';
import { runSql, startPostgres } from '../servers/postgres.js';
import { type RedisServer, startRedis } from '../servers/redis.js';
import { createSharedDatabase } from '../servers/shared-database.js';
import { startTcpProxy } from '../servers/tcp-proxy.js';
import { manageStores } from './deployments.js';

/**
 * An acknowledged write survives the end of its process, because each write goes to the file first. With `everysec` Redis puts that off
 * while an earlier sync is slow, and a killed one may forget the last two seconds.
 */
export const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'no'];

export type DistributedStores = Awaited<ReturnType<typeof manage>>;

/** On a database in the server that all tests share, which must be left running. */
export async function openDistributedStores(redisSettings: readonly string[] = []): Promise<DistributedStores> {
  const [redis, database] = await Promise.all([startRedis(redisSettings), createSharedDatabase()]);
  return manage(redis, database.url, database.drop);
}

/** The same until the end of the test that asks for them. */
export async function openTestStores(redisSettings?: readonly string[]): Promise<DistributedStores> {
  const stores = await openDistributedStores(redisSettings);
  onTestFinished(() => stores.close());
  return stores;
}

/** With a PostgreSQL server that the test may stop; its commits wait for the disk as in production. */
export async function openStoppableStores(redisSettings: readonly string[] = []) {
  const [redis, postgres] = await Promise.all([startRedis(redisSettings), startPostgres()]);
  return { ...(await manage(redis, await postgres.createDatabase('idempay'), postgres.close)), postgres };
}

/** How a request that executes this named statement looks on the wire to PostgreSQL: the end of a Bind message's names. */
export const executionOf = (statement: string) => `\0${statement}\0`;

async function manage(redis: RedisServer, databaseUrl: string, remove: () => Promise<unknown>) {
  const wires = {
    redis: await startTcpProxy(redis.port),
    postgres: await startTcpProxy(Number(new URL(databaseUrl).port)),
  };
  const [toRedis, toPostgres] = [wires.redis.through(redis.url), wires.postgres.through(databaseUrl)];
  return {
    ...manageStores({ REDIS_URL: redis.url, DATABASE_URL: databaseUrl }, () =>
      Promise.all([redis.close(), remove(), wires.redis.close(), wires.postgres.close()]),
    ),
    redis,
    databaseUrl,
    /** Proxies before both servers, which a test damages, and the settings of a process that uses them. */
    wires: { ...wires, environment: { REDIS_URL: toRedis, DATABASE_URL: toPostgres } },
    sql: <Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]) =>
      runSql<Row>(databaseUrl, text, values),
    async keyNames(): Promise<KeyNames> {
      const [row] = await runSql<{ id: string }>(databaseUrl, 'SELECT id FROM idempay.deployment');
      return createKeyNames(row?.id ?? '');
    },
  };
}
