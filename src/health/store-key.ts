import { UUID } from '../payments/values/idempotency-key.js';
import { TRANSACTION_CACHE } from '../transactions/ports/transaction-cache.js';

/** The record that a key of the health endpoint names (rules P8, H2): nothing but this service's own keys can be asked for. */
export type StoreKey =
  | { readonly kind: 'record'; readonly key: string }
  | { readonly kind: 'cache entry'; readonly transactionId: number };

const CACHE_KEY = new RegExp(`^${TRANSACTION_CACHE}::(\\d{1,15})$`);

/** A store may stop reading a key at a NUL or trim it, so text that only resembles a key is refused before the store is asked. */
export function readStoreKey(key: string): StoreKey | undefined {
  // Some platforms write UUIDs in capitals, as the key of a payment may be (rule P2).
  const record = key.toLowerCase();
  if (UUID.test(record)) return { kind: 'record', key: record };
  const id = CACHE_KEY.exec(key)?.[1];
  return id === undefined ? undefined : { kind: 'cache entry', transactionId: Number(id) };
}
