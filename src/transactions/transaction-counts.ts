/** Counts of the transactions of this process since it started, with the cache and the list tags, in plain numbers. */
export interface TransactionCounts {
  /** Creates that were answered, of one row or many; replayed: the key had done it before; mismatch: with other rows. */
  readonly creates: { created: number; replayed: number; mismatch: number };
  /** Reads of one id, by the cache's answer (rule T8). */
  readonly lookUps: { hit: number; miss: number; bypass: number };
  /** Refused: the token was voided by a write, or there is no room. */
  readonly fills: { filled: number; refused: number; failed: number };
  /** Write marks that were put before a change. */
  marks: number;
  /**
   * Tags of lists. Known: no ids were read for it. Extended: only ids that came since. Rebuilt: from the start, or from a
   * checkpoint before a removed id.
   */
  readonly tags: { known: number; extended: number; rebuilt: number };
}

export function createTransactionCounts(): TransactionCounts {
  return {
    creates: { created: 0, replayed: 0, mismatch: 0 },
    lookUps: { hit: 0, miss: 0, bypass: 0 },
    fills: { filled: 0, refused: 0, failed: 0 },
    marks: 0,
    tags: { known: 0, extended: 0, rebuilt: 0 },
  };
}
