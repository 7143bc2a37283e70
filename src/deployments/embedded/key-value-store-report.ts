import type { Clock } from '../../clock.js';
import type { KeyValueStoreReport } from '../../health/key-value-store.js';
import { transactionJson } from '../../transactions/representation.js';
import { TRANSACTION_CACHE } from '../../transactions/transaction-cache.js';
import type { KeyRecord } from './payment-row.js';
import type { Reader } from './reader.js';
import type { StoreCounters } from './store-counters.js';
import type { EmbeddedTransactionCache } from './transaction-cache.js';
import type { Writer } from './writer.js';

const FIND_RECORD = 'SELECT value, expires_at FROM idempotency_keys WHERE key = ?';
const PROBE = 'SELECT 1';
/** Nothing else is ever a key record. SQLite would also stop reading a key at a NUL. */
const RECORD_KEY = /^[0-9a-f-]{36}$/;
const CACHE_KEY = new RegExp(`^${TRANSACTION_CACHE}::(\\d{1,15})$`);

/** The embedded store is this process, so its memory, age and one client are the process's own. */
export function createEmbeddedReport(
  writer: Writer,
  reader: Reader,
  cache: EmbeddedTransactionCache,
  counters: StoreCounters,
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

    async value(key) {
      const cacheKey = CACHE_KEY.exec(key);
      if (cacheKey) {
        const entry = cache.peek(Number(cacheKey[1]));
        return entry && { value: transactionJson(entry.transaction), ttlSeconds: Math.ceil(entry.ttlMs / 1000) };
      }
      if (!RECORD_KEY.test(key)) return undefined;
      const record = findRecord.get(key) as Pick<KeyRecord, 'value' | 'expires_at'> | undefined;
      const ttlMs = (record?.expires_at ?? 0) - clock.now();
      return record && ttlMs > 0 ? { value: record.value, ttlSeconds: Math.ceil(ttlMs / 1000) } : undefined;
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
