import { StoreUnavailable } from '../../errors.js';
import type { KeyValueStoreReport, StoredValue } from '../../health/key-value-store.js';
import { transactionJson } from '../../transactions/representation.js';
import type { Transaction } from '../../transactions/transaction.js';
import { TRANSACTION_CACHE } from '../../transactions/transaction-cache.js';
import { cacheKeys, paymentKeys } from './key-names.js';
import { mastersOf, type RedisClient, redisFault } from './redis-client.js';
import { infoOfMasters, numberIn, type RedisInfo } from './redis-info.js';

/** Nothing else is ever a key record. */
const RECORD_KEY = /^[0-9a-f-]{36}$/;
const CACHE_KEY = new RegExp(`^${TRANSACTION_CACHE}::(\\d{1,15})$`);

/** What Redis says of itself, over all masters of a Cluster. Only keys of this service can be asked for. */
export function createRedisReport(client: RedisClient): KeyValueStoreReport {
  async function field(key: string, name: string): Promise<{ value: string; ttlSeconds: number | null } | undefined> {
    const [value, ttlMs] = await Promise.all([client.hget(key, name), client.pttl(key)]).catch((error: unknown) => {
      throw redisFault(error);
    });
    if (value === null || value === undefined) return undefined;
    return { value: String(value), ttlSeconds: Number(ttlMs) < 0 ? null : Math.ceil(Number(ttlMs) / 1000) };
  }

  return {
    store: 'redis',

    async ping() {
      const masters = mastersOf(client);
      if (masters.length === 0) throw new StoreUnavailable('unchanged', 'no Redis server is known');
      await Promise.all(masters.map((server) => server.ping()));
    },

    async value(key): Promise<StoredValue | undefined> {
      const id = CACHE_KEY.exec(key)?.[1];
      if (id !== undefined) {
        const entry = await field(cacheKeys(id).entry, 'transaction');
        return entry && { ...entry, value: transactionJson(JSON.parse(entry.value) as Transaction) };
      }
      return RECORD_KEY.test(key) ? field(paymentKeys(key).record, 'value') : undefined;
    },

    async statistics() {
      const infos = await infoOfMasters(client);
      const sizes = await Promise.all(mastersOf(client).map((server) => server.dbsize()));
      const sum = (name: string) => infos.reduce((total, info) => total + numberIn(info, name), 0);
      return {
        totalKeys: sizes.reduce((total, size) => total + Number(size), 0),
        usedMemoryBytes: sum('used_memory'),
        hits: sum('keyspace_hits'),
        misses: sum('keyspace_misses'),
        expiredKeys: sum('expired_keys'),
        evictedKeys: sum('evicted_keys'),
        connectedClients: sum('connected_clients'),
        uptimeSeconds: Math.min(...infos.map((info) => numberIn(info, 'uptime_in_seconds'))),
        version: versionOf(infos[0]),
      };
    },
  };
}

/** Valkey tells its own version beside the Redis version that it is compatible with. */
function versionOf(info: RedisInfo | undefined): string {
  return info?.get('valkey_version') ?? info?.get('redis_version') ?? 'unknown';
}
