import type { Redis } from 'ioredis';
import { readStoreKey } from '../../health/store-key.js';
import type { KeyValueStoreReport, StoredValue } from '../../health/store-reports.js';
import { StoreUnavailable } from '../../platform/faults.js';
import { transactionJson } from '../../transactions/representation.js';
import type { Transaction } from '../../transactions/transaction.js';
import type { CacheLocations } from './connection/cache-masters.js';
import { redisFault } from './connection/fault.js';
import { infoOf, numberIn, type RedisInfo } from './connection/info.js';
import type { RedisClient } from './connection/masters.js';
import { mastersOf } from './connection/masters.js';
import { inTime } from './connection/reply-limit.js';
import type { KeyNames } from './key-names.js';

/** The report of Redis about itself, over all masters of a Cluster. Only keys of this service can be asked for. */
export function createRedisReport(
  client: RedisClient,
  names: KeyNames,
  databaseServer: () => string,
  locations: Pick<CacheLocations, 'current'>,
): KeyValueStoreReport {
  async function field(key: string, name: string): Promise<{ value: string; ttlSeconds: number | null } | undefined> {
    const [value, remainingMs] = await Promise.all([client.hget(key, name), client.pttl(key)]).catch(
      (error: unknown) => {
        throw redisFault(error);
      },
    );
    // The key may expire between the two commands: PTTL is then -2 (no key), which differs from -1 (no expiry).
    if (value === null || value === undefined || Number(remainingMs) === -2) return undefined;
    return { value: String(value), ttlSeconds: Number(remainingMs) < 0 ? null : Math.ceil(Number(remainingMs) / 1000) };
  }

  function knownMasters(): readonly Redis[] {
    const masters = mastersOf(client);
    if (masters.length === 0) throw new StoreUnavailable('unchanged', 'no Redis server is known');
    return masters;
  }

  return {
    store: 'redis',

    async ping() {
      await inTime(Promise.all(knownMasters().map((server) => server.ping())));
    },

    async value(text): Promise<StoredValue | undefined> {
      const key = readStoreKey(text);
      if (key?.kind === 'record') return field(names.payment(key.key).record, 'value');
      if (key?.kind !== 'cache entry') return undefined;
      const name = names.cached(key.transactionId).entry;
      const [source, entry] = await Promise.all([field(name, 'source'), field(name, 'transaction')]);
      // An entry of an earlier epoch, or from a database that was replaced since, does not count, here as for readers (rule O5).
      if (!source?.value.endsWith(` ${locations.current?.epoch} ${databaseServer()}`)) return undefined;
      return entry && { ...entry, value: transactionJson(JSON.parse(entry.value) as Transaction) };
    },

    async statistics() {
      const masters = knownMasters();
      const infos = await Promise.all(masters.map((server) => infoOf(server)));
      const sizes = await inTime(Promise.all(masters.map((server) => server.dbsize())));
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

/** Valkey gives its own version alongside the Redis version that it is compatible with. */
function versionOf(info: RedisInfo | undefined): string {
  return info?.get('valkey_version') ?? info?.get('redis_version') ?? 'unknown';
}
