/** What the embedded store has done since it was opened, as Redis counts it for itself. */
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
