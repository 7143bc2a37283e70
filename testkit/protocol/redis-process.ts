import { systemClock } from '#idempay/clock.js';
import { createKeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { createRedisKeyStore } from '#idempay/deployments/distributed/redis/key-store.js';
import { LockEnds } from '#idempay/deployments/distributed/redis/lock-ends.js';
import { connected, connectRedis, type RedisClient } from '#idempay/deployments/distributed/redis/redis-client.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import { createRedisTransactionCache } from '#idempay/deployments/distributed/redis/transaction-cache.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { RedisServer } from '../servers/redis.js';
import { LONG_MS } from './payment-attempts.js';
import { type CountingWatch, keySteps } from './payment-steps.js';

export const NAMES = createKeyNames('0123456789abcdef');

export type RedisProcess = Awaited<ReturnType<typeof openRedisProcess>>;
export type LockedKey = Awaited<ReturnType<typeof givenLockedKey>>;
export type Watching = CountingWatch & LockedKey;

export async function openRedisClient(url: string): Promise<RedisClient> {
  const location = readRedisUrl(url);
  if (!location) throw new Error(`${url} is no Redis URL`);
  const client = connectRedis(location, () => {});
  await connected(client);
  return client;
}

/** What one process of the distributed deployment has of Redis, without PostgreSQL: connections of its own. */
export async function openRedisProcess(url: string) {
  const client = await openRedisClient(url);
  /** What an operator is told about subscriptions that the server refused. */
  const refusals: Error[] = [];
  const ends = new LockEnds(client, NAMES.lockEnds, systemClock, (error) => refusals.push(error));
  return {
    client,
    keys: createRedisKeyStore(client, NAMES, ends, systemClock),
    refusals,
    close() {
      ends.close();
      client.disconnect();
    },
  };
}

export const givenLockedKey = ({ keys }: RedisProcess, leaseMs?: number) => keySteps(keys).lockedKey(leaseMs);

export async function givenWatch({ keys }: RedisProcess, locked: LockedKey): Promise<Watching> {
  return { ...locked, ...(await keySteps(keys).watching(locked.key)) };
}

/** The real cache adapter, as a process has it that is connected to one server, and reads from one database. */
export function redisCaches() {
  const clients: RedisClient[] = [];
  return {
    async on({ url }: RedisServer, database = () => 'database'): Promise<TransactionCache> {
      const client = await openRedisClient(url);
      clients.push(client);
      const settings = { transactionCacheTtlMs: LONG_MS, clock: systemClock, roomForFills: () => true };
      return createRedisTransactionCache(client, NAMES, database, settings);
    },
    disconnect() {
      for (const client of clients) client.disconnect();
    },
  };
}
