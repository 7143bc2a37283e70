/** Port: whether the store of record can be used: it answers, and takes commits. */
export interface StoreOfRecordReport {
  /** Resolves when it answers, or did within the last seconds; rejects when it cannot. May hang: the caller sets the limit. */
  ping(): Promise<void>;
}
