import { systemClock } from '#idempay/clock.js';
import { connected, connectRedis, type RedisClient } from '#idempay/deployments/distributed/redis-client.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis-url.js';
import { createRedisTransactionCache } from '#idempay/deployments/distributed/transaction-cache.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { RedisServer } from './servers/redis.js';

/** Longer than any test. */
const TTL_MS = 600_000;

/** The real cache adapter, as a process has it that is connected to one server. */
export interface RedisCaches {
  on(server: RedisServer): Promise<TransactionCache>;
  disconnect(): void;
}

export function redisCaches(): RedisCaches {
  const clients: RedisClient[] = [];
  return {
    async on(server) {
      const location = readRedisUrl(server.url);
      if (!location) throw new Error(`${server.url} is no Redis URL`);
      const client = connectRedis(location, () => {});
      clients.push(client);
      await connected(client);
      return createRedisTransactionCache(client, TTL_MS, systemClock, () => true);
    },
    disconnect() {
      for (const client of clients) client.disconnect();
    },
  };
}
