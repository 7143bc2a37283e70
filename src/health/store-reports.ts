/** Port: what the health endpoints report of the key-value store (spec 4.2, rules H1 to H3). */
export interface KeyValueStoreReport {
  readonly store: 'embedded' | 'redis';
  /** Resolves when the store answered; rejects when it cannot. May hang: the caller sets the limit. */
  ping(): Promise<void>;
  /** The value under one of this service's own keys; undefined when there is none. */
  value(key: string): Promise<StoredValue | undefined>;
  statistics(): Promise<StoreStatistics>;
}

export interface StoredValue {
  readonly value: string;
  /** Whole seconds, rounded up. Null if it does not expire. */
  readonly ttlSeconds: number | null;
}

export interface StoreStatistics {
  readonly totalKeys: number;
  readonly usedMemoryBytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly expiredKeys: number;
  readonly evictedKeys: number;
  readonly connectedClients: number;
  readonly uptimeSeconds: number;
  readonly version: string;
}

/** Port: whether the store of record can be used: it answers, and takes commits. */
export interface StoreOfRecordReport {
  /** Resolves when it answers, or did within the last seconds; rejects when it cannot. May hang: the caller sets the limit. */
  ping(): Promise<void>;
  /**
   * Only if there may be other processes: whether one of them can use it, as far as the key-value store knows. Rejects if that cannot be
   * asked. May hang: the caller sets the limit.
   */
  isReachedByAnother?(): Promise<boolean>;
  /** The process will end: it says no more to others that it can use it. */
  leave?(): void;
}
