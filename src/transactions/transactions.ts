import { isUnknown, StoreUnavailable } from '../platform/faults.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import { canBeAccount } from './account.js';
import { asCreated, type CreationName, type CreationResult, fingerprintOf } from './creation.js';
import { EMPTY_LIST_TAG, ListTags, type OpenedTag } from './list-tags.js';
import type { CacheLookUpResult, TransactionCache, WriteMark } from './ports/transaction-cache.js';
import type {
  FoundTransactions,
  RemovalResult,
  StatusChangeResult,
  TransactionSnapshot,
  TransactionStore,
} from './ports/transaction-store.js';
import { transactionTag } from './representation.js';
import {
  LONG_LIST,
  type NewTransaction,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionFilter,
  type TransactionSearch,
  type TransactionStatus,
} from './transaction.js';
import { createTransactionCounts, type TransactionCounts } from './transaction-counts.js';

/** True if a tag satisfies the precondition that a client sent; only the HTTP layer knows the form of the header. */
export type TagCondition = (tag: string) => boolean;

/** Rows that one search looks at: some milliseconds of work, however rare the wanted status is. */
const MOST_SEARCHED = 5_000;

/** As `IDEMPOTENCY_TTL_SECONDS` is by default. */
const DEFAULT_TTL_MS = 86_400_000;

export interface Transactions {
  /**
   * All of them or none. With `once`, the client's own key, nothing is created a second time: a repeat gets the first result. `condition`:
   * on the tag of the whole list (rule T7), which a repeat need not meet again.
   */
  create(wanted: readonly NewTransaction[], rules?: CreateRules): Promise<CreateResult>;
  /** Spec 4.3 caching rule 1. `bypass`: the cache was not asked, or did not answer (rule T8). */
  get(id: number): NowOrLater<{ transaction: Transaction | undefined; cache: 'hit' | 'miss' | 'bypass' }>;
  /** Spec 4.3 caching rule 2; `ifMatch` decides in the statement that changes the row (rule T7). */
  changeStatus(id: number, status: TransactionStatus, ifMatch?: TagCondition): Promise<StatusChangeResult>;
  /** Spec 4.3 caching rule 3. */
  remove(id: number, ifMatch?: TagCondition): Promise<RemovalResult>;
  /** The tag, and unless `ifNoneMatch` says that the client has it, the rows of the same snapshot, page by page. */
  list(filter: TransactionFilter, ifNoneMatch?: TagCondition): NowOrLater<TransactionList>;
  /** A page of the newest, out of the store and never out of the cache. Short or even empty pages may have a next one. */
  search(search: TransactionSearch): Promise<FoundTransactions>;
}

export interface CreateRules {
  readonly once?: CreationName | undefined;
  readonly condition?: TagCondition | undefined;
  /** The client that asks: clients take turns at the list of the condition. If omitted, nobody in particular. */
  readonly client?: string | undefined;
}

export type CreateResult =
  /** As they were created, also if they were changed or deleted since. */
  | { readonly state: 'created' | 'replayed'; readonly transactions: readonly Transaction[] }
  | { readonly state: 'mismatch' }
  | { readonly state: 'precondition failed' };

export interface TransactionSettings {
  /** How many ids are read at a time for a list's tag, which a test makes small. */
  readonly idPage?: number;
  readonly counts?: TransactionCounts;
  /** How long a client's key of a create is remembered. */
  readonly idempotencyTtlMs?: number;
}

export type TransactionList =
  | { readonly state: 'not modified'; readonly tag: string }
  | { readonly state: 'list'; readonly tag: string; readonly pages: TransactionPages };

/** The rows of one snapshot, which it holds until it is closed; closes itself after the last page. */
export interface TransactionPages {
  next(): Promise<{ readonly rows: readonly Transaction[]; readonly last: boolean }>;
  /** True if others wait for the snapshot. */
  isWanted(): boolean;
  /** True if another client is owed the snapshot. */
  isOwed(): boolean;
  close(): void;
}

export function createTransactions(
  store: TransactionStore,
  cache: TransactionCache,
  { idPage, counts = createTransactionCounts(), idempotencyTtlMs = DEFAULT_TTL_MS }: TransactionSettings = {},
): Transactions {
  const tags = new ListTags(idPage, counts.tags);

  function get(id: number): ReturnType<Transactions['get']> {
    const looked = cache.lookUp(id);
    return looked instanceof Promise ? looked.catch(bypass).then((seen) => getAs(seen, id)) : getAs(looked, id);
  }

  function getAs(seen: CacheLookUpResult, id: number): ReturnType<Transactions['get']> {
    counts.lookUps[seen.state] += 1;
    return seen.state === 'hit' ? { transaction: seen.transaction, cache: 'hit' } : read(seen, id);
  }

  async function read(seen: Exclude<CacheLookUpResult, { state: 'hit' }>, id: number) {
    const token = seen.state === 'miss' ? seen.token : undefined;
    let filled = false;
    let isChanging = false;
    try {
      // The mark of a write whose commit hangs ends before it.
      const transaction = await store.get(id, () => {
        isChanging = true;
      });
      if (transaction && token && !isChanging) {
        countFill(await cache.fill(id, token, transaction).catch(ignore));
        filled = true;
      }
      return { transaction, cache: seen.state };
    } finally {
      if (token && !filled) await cache.forgo(id, token).catch(ignore);
    }
  }

  /** `accepted` is undefined if the cache failed, and holds nothing of it. */
  function countFill(accepted: boolean | undefined): void {
    if (accepted) counts.fills.filled += 1;
    else if (accepted === false) counts.fills.refused += 1;
    else counts.fills.failed += 1;
  }

  /**
   * Puts the mark, writes, then leaves the cache with what is certain: the new version, or nothing. Without a mark nothing
   * is written; a change that the cache did not take is not acknowledged.
   */
  async function write<T>(
    id: number,
    commit: (mark: WriteMark) => Promise<T>,
    written: (result: T) => Transaction | undefined,
  ): Promise<T> {
    const mark = await cache.mark(id).catch((fault: unknown) => {
      throw new StoreUnavailable('unchanged', 'the cache could not be marked before the change', fault);
    });
    counts.marks += 1;
    const result = await commit(mark).catch(async (fault: unknown) => {
      // A write of unknown outcome may still commit: its mark stands until it has surely ended.
      if (!isUnknown(fault)) await cache.evict(mark).catch(ignore);
      else evictOnceEnded(mark, fault);
      throw fault;
    });
    const transaction = written(result);
    await (transaction ? cache.refresh(mark, transaction) : cache.evict(mark)).catch((fault: unknown) => {
      throw new StoreUnavailable('unknown', 'the cache could not be updated after the change', fault);
    });
    return result;
  }

  /** A store that reports late how a write ended says so in its fault; any other mark ends by itself, with time. */
  function evictOnceEnded(mark: WriteMark, fault: unknown): void {
    const { ended } = fault as StoreUnavailable;
    const evict = () => cache.evict(mark).catch(ignore);
    ended?.then(evict, (late: unknown) => (isUnknown(late) ? undefined : evict()));
  }

  /**
   * The statuses in which the row's tag satisfies the condition. A tag covers the status and the members that never change, so a condition
   * on the tag is a condition on the status, which the changing statement can judge by itself.
   */
  async function statusesMatching(id: number, ifMatch: TagCondition | undefined) {
    if (!ifMatch) return undefined;
    const transaction = await store.get(id);
    if (!transaction) return [];
    return TRANSACTION_STATUSES.filter((status) => ifMatch(transactionTag(transaction, status)));
  }

  function list(filter: TransactionFilter, ifNoneMatch?: TagCondition): NowOrLater<TransactionList> {
    if (!canMatch(filter)) {
      return ifNoneMatch?.(EMPTY_LIST_TAG)
        ? { state: 'not modified', tag: EMPTY_LIST_TAG }
        : { state: 'list', tag: EMPTY_LIST_TAG, pages: NO_PAGES };
    }
    const opened = tags.open(filter, store, ifNoneMatch);
    return opened instanceof Promise ? opened.then(listOf) : listOf(opened);
  }

  function listOf({ tag, snapshot }: OpenedTag): TransactionList {
    return snapshot ? { state: 'list', tag, pages: pagesOf(snapshot) } : { state: 'not modified', tag };
  }

  async function create(wanted: readonly NewTransaction[], { once, condition, client }: CreateRules = {}) {
    const [only] = wanted;
    const key = once && { ...once, fingerprint: fingerprintOf(wanted), idempotencyTtlMs };
    if (condition && !(await listMeets(condition, client))) {
      // A repeat never meets the condition that its first request met: that one changed the list.
      const known = key && (await store.findCreation(key));
      return known ? counted(resultOf(wanted, known)) : ({ state: 'precondition failed' } as const);
    }
    if (!key && only && wanted.length === 1) {
      return counted({ state: 'created', transactions: [await store.create(only)] });
    }
    return counted(resultOf(wanted, await store.createAll(wanted, key)));
  }

  /** Just before the create and not in its commit (RFC 9110 13.2.1). Any tag is enough, because no list is sent. */
  async function listMeets(condition: TagCondition, client: string | undefined): Promise<boolean> {
    const { tag } = await tags.open({ from: '', to: '', client }, store, () => true);
    return condition(tag);
  }

  function counted(result: CreateResult): CreateResult {
    if (result.state !== 'precondition failed') counts.creates[result.state] += 1;
    return result;
  }

  return {
    create,
    get,
    async changeStatus(id, status, ifMatch) {
      const onlyFrom = await statusesMatching(id, ifMatch);
      return write(
        id,
        (mark) => store.changeStatus(id, status, onlyFrom, mark),
        (change) => (change.state === 'done' ? change.transaction : undefined),
      );
    },
    async remove(id, ifMatch) {
      const onlyFrom = await statusesMatching(id, ifMatch);
      return write(
        id,
        (mark) => store.remove(id, onlyFrom, mark),
        () => undefined,
      );
    },
    list,
    async search(search) {
      return canMatch(search) ? store.newest(search, MOST_SEARCHED) : NOTHING_FOUND;
    },
  };
}

function resultOf(wanted: readonly NewTransaction[], creation: CreationResult): CreateResult {
  if (creation.state === 'mismatch') return creation;
  return { state: creation.state, transactions: asCreated(wanted, creation) };
}

function canMatch({ from, to }: TransactionFilter): boolean {
  return (from === '' || canBeAccount(from)) && (to === '' || canBeAccount(to));
}

const NOTHING_FOUND: FoundTransactions = { transactions: [], next: undefined };

const NO_PAGES: TransactionPages = {
  next: async () => ({ rows: [], last: true }),
  isWanted: () => false,
  isOwed: () => false,
  close() {},
};

function pagesOf(snapshot: TransactionSnapshot): TransactionPages {
  let lastId = 0;
  return {
    async next() {
      const rows = await snapshot.rows(lastId, LONG_LIST);
      lastId = rows.at(-1)?.id ?? lastId;
      const last = rows.length < LONG_LIST;
      if (last) snapshot.close();
      return { rows, last };
    },
    isWanted: () => snapshot.isWanted(),
    isOwed: () => snapshot.isOwed(),
    close: () => snapshot.close(),
  };
}

/** A cache that cannot be asked: rows that are read then are not put into it either. */
function bypass(fault: unknown): CacheLookUpResult {
  if (!(fault instanceof StoreUnavailable)) throw fault;
  return { state: 'bypass' };
}

function ignore(): undefined {}
