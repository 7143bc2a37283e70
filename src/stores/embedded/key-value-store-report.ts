import { readStoreKey } from '../../health/store-key.js';
import type { KeyValueStoreReport } from '../../health/store-reports.js';
import type { Clock } from '../../platform/clock.js';
import { transactionJson } from '../../transactions/representation.js';
import type { Transaction } from '../../transactions/transaction.js';
import type { KeyRecord } from './key-records.js';
import type { Reader } from './reader.js';
import type { Writer } from './writer/writer.js';

const FIND_RECORD = 'SELECT value, expires_at FROM idempotency_keys WHERE key = ?';
const PROBE = 'SELECT 1';

/** Counts of the embedded store since it was opened, as Redis counts for itself. */
export interface StoreCounters {
  /** Look-ups of key records and cache entries that found one. */
  hits: number;
  misses: number;
  expiredKeys: number;
  /** Cache entries that gave way to others for want of room. */
  evictedKeys: number;
}

export function createStoreCounters(): StoreCounters {
  return { hits: 0, misses: 0, expiredKeys: 0, evictedKeys: 0 };
}

/** Looks into the cache without counting as a use. */
export interface CachedTransactions {
  /** The entry and its remaining life in milliseconds. */
  peek(id: number): { transaction: Transaction; remainingMs: number } | undefined;
  size(): number;
}

/** The embedded store is this process, so its memory, age and one client are the process's own. */
export function createEmbeddedReport(
  writer: Writer,
  reader: Reader,
  { cache, counters }: { cache: CachedTransactions; counters: StoreCounters },
  clock: Clock,
): KeyValueStoreReport {
  const findRecord = reader.prepare(FIND_RECORD);
  const probe = reader.prepare(PROBE);
  const openedAt = clock.monotonic();

  return {
    store: 'embedded',

    async ping() {
      probe.get();
      await writer.write('ping');
    },

    async value(text) {
      const key = readStoreKey(text);
      if (key?.kind === 'cache entry') {
        const entry = cache.peek(key.transactionId);
        return entry && { value: transactionJson(entry.transaction), ttlSeconds: Math.ceil(entry.remainingMs / 1000) };
      }
      if (key?.kind !== 'record') return undefined;
      const record = findRecord.get(key.key) as Pick<KeyRecord, 'value' | 'expires_at'> | undefined;
      const remainingMs = (record?.expires_at ?? 0) - clock.now();
      return record && remainingMs > 0 ? { value: record.value, ttlSeconds: Math.ceil(remainingMs / 1000) } : undefined;
    },

    async statistics() {
      return {
        totalKeys: (await writer.write('countKeys')) + cache.size(),
        usedMemoryBytes: process.memoryUsage.rss(),
        hits: counters.hits,
        misses: counters.misses,
        expiredKeys: counters.expiredKeys,
        evictedKeys: counters.evictedKeys,
        connectedClients: 1,
        uptimeSeconds: Math.floor((clock.monotonic() - openedAt) / 1000),
        version: reader.sqliteVersion,
      };
    },
  };
}
