import { systemClock } from '#idempay/clock.js';
import { createKeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { connected, connectRedis, type RedisClient } from '#idempay/deployments/distributed/redis/redis-client.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import { createRedisTransactionCache } from '#idempay/deployments/distributed/redis/transaction-cache.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { RedisServer } from '../servers/redis.js';

/** Longer than any test. */
const TTL_MS = 600_000;

/** What the caches' entries are called: those of one deployment. */
export const NAMES = createKeyNames('0123456789abcdef');

/** The real cache adapter, as a process has it that is connected to one server, and reads from one database. */
export interface RedisCaches {
  on(server: RedisServer, database?: () => string): Promise<TransactionCache>;
  disconnect(): void;
}

export function redisCaches(): RedisCaches {
  const clients: RedisClient[] = [];
  return {
    async on(server, database = () => 'database') {
      const location = readRedisUrl(server.url);
      if (!location) throw new Error(`${server.url} is no Redis URL`);
      const client = connectRedis(location, () => {});
      clients.push(client);
      await connected(client);
      return createRedisTransactionCache(client, NAMES, database, {
        transactionCacheTtlMs: TTL_MS,
        clock: systemClock,
        roomForFills: () => true,
      });
    },
    disconnect() {
      for (const client of clients) client.disconnect();
    },
  };
}
