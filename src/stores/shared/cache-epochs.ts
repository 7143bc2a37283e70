/** A time in which the cache is in these masters of Redis, and in no others. */
export interface CacheEpoch {
  /** Rises with each change of masters. */
  readonly epoch: number;
  /** The replication id of each; a master has another one after each start and each promotion. */
  readonly masters: readonly string[];
}

/**
 * Port: the masters of Redis that the cache is in, for all processes. It is in the store of record, because each master knows only its own
 * writes. A master that was left, and to which an address leads again, has entries that are older than writes acknowledged meanwhile.
 */
export interface CacheEpochs {
  /** The present epoch if all these masters are in it, else a new one of them. No change of the epoch before is then under way. */
  of(masters: readonly string[]): Promise<CacheEpoch>;
  latest(): Promise<CacheEpoch>;
}
