import type { NowOrLater } from '../../platform/now-or-later.js';
import type { Transaction } from '../transaction.js';

/** The cache's name in the specification; its entries are seen by the health endpoint as `transactionCache::<id>`. */
export const TRANSACTION_CACHE = 'transactionCache';

/**
 * Port: the per-id cache (spec 4.3). It is never stale: a fill is accepted only while its token lives, and a write drops the entry, voids
 * the token and puts a mark before it commits. Its contract: `test/contracts/transaction-cache-contract.ts`.
 */
export interface TransactionCache {
  /** On a miss, the token that permits one fill; none while another reader loads. */
  lookUp(id: number): NowOrLater<CacheLookUpResult>;

  /** Stores what the token's holder read from the store of record. False when the token was voided meanwhile. */
  fill(id: number, token: FillToken, transaction: Transaction): Promise<boolean>;

  /** Gives a token back unused: there was nothing to fill in. */
  forgo(id: number, token: FillToken): Promise<void>;

  /** Before a write commits: drops the entry, voids the fill token, and refuses hits and fills while the mark stands. */
  mark(id: number): Promise<WriteMark>;

  /** After the commit: stores the written version unless a newer one is known, and lifts the mark. */
  refresh(mark: WriteMark, transaction: Transaction): Promise<void>;

  /** After a delete, a refused write or one of unknown outcome: leaves no entry, and lifts the mark. */
  evict(mark: WriteMark): Promise<void>;
}

export type CacheLookUpResult =
  | { readonly state: 'hit'; readonly transaction: Transaction }
  | { readonly state: 'miss'; readonly token: FillToken | undefined }
  /** A write mark stands: the row must be read, and not be put into the cache. */
  | { readonly state: 'bypass' };

export type FillToken = string;

export interface WriteMark {
  readonly id: number;
  readonly token: string;
  /** By our monotonic clock: a write that begins later is no longer protected and must be refused. Absent: no limit. */
  readonly writeBy?: number;
  /**
   * The epoch of the cache when the mark was put: the write is refused if the cache was replaced since. Absent for a cache that cannot be
   * replaced.
   */
  readonly epoch?: number;
}
