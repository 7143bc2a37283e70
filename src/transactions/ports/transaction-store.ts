import type { NowOrLater } from '../../platform/now-or-later.js';
import type { CreationKey, CreationResult, KnownCreation } from '../creation.js';
import type {
  NewTransaction,
  Transaction,
  TransactionFilter,
  TransactionSearch,
  TransactionStatus,
} from '../transaction.js';
import type { WriteMark } from './transaction-cache.js';

/**
 * Port: the transactions in the store of record. Its contract: `test/contracts/transaction-store-contract.ts`.
 * Every write is one atomic commit, durable when it resolves. Faults are StoreUnavailable.
 */
export interface TransactionStore {
  /** The id is higher than every id given before, also to rows that are gone, and ids rise in commit order. */
  create(transaction: NewTransaction): Promise<Transaction>;

  /**
   * All of them or none, in one commit; their ids follow each other in the order given, 1 to `MAX_CREATED_TOGETHER` of them. With a key its
   * record is in the same commit, and no later call with this key creates anything until the record has expired, by the store's clock. A
   * later call gets the first result, or hears that its fingerprint is another. Ids may be left out for it.
   */
  createAll(transactions: readonly NewTransaction[], key?: CreationKey): Promise<CreationResult>;

  /** The answer of `createAll` to this key, without creating anything. Undefined if it was not used, or has expired. */
  findCreation(key: CreationKey): Promise<KnownCreation | undefined>;

  /** The store calls `changing` if a write of the row is under way. That write may end at any time, so a cache must not keep this result. */
  get(id: number, changing?: () => void): Promise<Transaction | undefined>;

  /**
   * `onlyFrom`: the statuses in which the change may happen, checked in the statement that changes the row. `mark`: the cache's write mark;
   * the store refuses to write if that no longer protects.
   */
  changeStatus(
    id: number,
    status: TransactionStatus,
    onlyFrom?: readonly TransactionStatus[],
    mark?: WriteProtection,
  ): Promise<StatusChangeResult>;

  remove(id: number, onlyFrom?: readonly TransactionStatus[], mark?: WriteProtection): Promise<RemovalResult>;

  /**
   * Up to `limit` transactions of a filtered list, newest first, each as it is now. At most `mostRead` rows of the list are looked at, of
   * any status: so fewer may be found although more are there.
   */
  newest(search: TransactionSearch, mostRead: number): Promise<FoundTransactions>;

  /** At least as new as every create and delete that was acknowledged, or shown by a read, before the call. */
  listVersion(): NowOrLater<number>;

  /**
   * One consistent view of a filtered list; must be closed. `long`: more than one page of rows is read from it, and it is waited for at the
   * place that `lengthen` returned, or at the end of the line.
   */
  openSnapshot(filter: TransactionFilter, long?: number | 'at the end'): Promise<TransactionSnapshot>;
}

/** Until when, and in which epoch, a write mark protects. */
export type WriteProtection = Pick<WriteMark, 'writeBy' | 'epoch'>;

export type RemovalResult = 'removed' | 'not found' | 'precondition failed';

export type StatusChangeResult =
  /** Also when it had that status before: then the row was left alone (rule T4). */
  | { readonly state: 'done'; readonly transaction: Transaction }
  | { readonly state: 'not found' }
  | { readonly state: 'precondition failed' }
  | { readonly state: 'final'; readonly status: TransactionStatus };

export interface FoundTransactions {
  readonly transactions: readonly Transaction[];
  /** `before` of the next page. Undefined after the last one. */
  readonly next: number | undefined;
}

export interface TransactionSnapshot {
  /** The version of the list of all transactions, which every create and delete moves in its own commit. */
  readonly version: number;
  /**
   * The lowest id of the filtered list that was removed after that version of the list: Infinity when none was, 0 when the
   * store does not remember. Below it the list is as it was at that version.
   */
  firstRemovedSince(version: number): Promise<number>;
  /** The next ids of the list, rising, after `afterId` (0: from the start). */
  ids(afterId: number, limit: number): Promise<readonly number[]>;
  rows(afterId: number, limit: number): Promise<readonly Transaction[]>;
  /** True if others wait for a snapshot, because there are as many as there may be. */
  isWanted(): boolean;
  /** True if its client has more than half of the snapshots, and another client has waited for one for a while. */
  isOwed(): boolean;
  /**
   * Undefined if it may be used for a long list. Otherwise it must be closed, and one for a long list be opened at this place in the line.
   */
  lengthen(): number | undefined;
  close(): void;
}
