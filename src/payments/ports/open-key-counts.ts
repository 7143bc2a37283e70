/** Port: how many keys are open, counted by all processes together. Faults are StoreUnavailable. */
export interface OpenKeyCounts {
  /** One atomic step: first closes, then opens as many of the wanted keys as `max` allows, lowest part first. Returns how many. */
  exchange(change: OpenKeyChange): Promise<number>;
}

export interface OpenKeyChange {
  readonly max: number;
  /** A part is the moment of a key's generation (milliseconds since the epoch), divided by this. */
  readonly partMs: number;
  /** All keys of the parts before it have expired. */
  readonly oldestPart: number;
  readonly idempotencyTtlMs: number;
  /** Keys by part. */
  readonly closed: ReadonlyMap<number, number>;
  readonly wanted: ReadonlyMap<number, number>;
}
