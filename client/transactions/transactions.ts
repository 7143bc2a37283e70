import { ConflictError, InvalidRequestError, NotFoundError } from '../errors.js';
import type { CallOptions } from '../http/call.js';
import type { Changes } from '../http/changes.js';
import { isNotModified, isTransaction, jsonOf } from '../http/forms.js';
import { askedAnew, type PagedList, pagedList, queryOf } from '../http/pages.js';
import { hasOwnHeader, isObject } from '../http/proof.js';
import { Remembered } from '../http/remembered.js';
import type { Requests } from '../http/requests.js';
import { elementsOf } from '../http/streams.js';
import type { Answer } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { FoundTransaction, NewTransaction, Transaction, TransactionStatus } from '../representations.js';
import type { Settings } from '../settings.js';
import { readIds } from './transaction-ids.js';

export interface TransactionFilter {
  /** Equals `fromAccount`. */
  readonly from?: string | undefined;
  /** Equals `toAccount`. */
  readonly to?: string | undefined;
}

export interface TransactionSearchFilter extends TransactionFilter {
  /** The status that it has now. */
  readonly status?: TransactionStatus | undefined;
  /** How many transactions one page has at most: 1 to 200. */
  readonly limit?: number | undefined;
}

export interface CreateOptions extends CallOptions {
  /**
   * The caller's own, 1 to 64 visible ASCII characters: with it the create is repeated safely, by this call and by later ones with
   * the same content. Without it a create whose answer is lost ends in an UnknownChangeError.
   */
  readonly idempotencyKey?: string | undefined;
}

export interface CreateResult {
  readonly transaction: Transaction;
  /** An earlier request with this idempotency key had created it. */
  readonly replayed: boolean;
}

export interface CreateBatchResult {
  /** In the order of the request. */
  readonly transactions: readonly Transaction[];
  readonly replayed: boolean;
}

export interface ChangeOptions extends CallOptions {
  /** The tag that the transaction must have, as `tagOf` gives it: else a ConflictError. Only with an id. */
  readonly ifMatch?: string | undefined;
}

/**
 * A transaction that `get`, `search`, `create` or `changeStatus` gave: it is changed only if it has the status that is seen there. Or an id:
 * it is changed in any state.
 */
export type Target = Transaction | number;

export interface Transactions {
  create(transaction: NewTransaction, options?: CreateOptions): Promise<CreateResult>;
  /** All of them or none, at most 1,000. */
  createBatch(transactions: readonly NewTransaction[], options?: CreateOptions): Promise<CreateBatchResult>;
  /** Never stale; asked with the tag of the last time. */
  get(id: number, options?: CallOptions): Promise<Transaction>;
  /** By id, rising; asked anew each time it is iterated, and read as it comes. For a person, or a part of many, there is `search`. */
  list(filter?: TransactionFilter, options?: CallOptions): AsyncIterable<Transaction>;
  /**
   * Only the ids, asked with the tag of the last time: an unchanged list costs a 304. That says nothing about statuses, so there is no
   * such read of whole transactions.
   */
  ids(filter?: TransactionFilter, options?: CallOptions): Promise<readonly number[]>;
  /**
   * The newest first, in pages, each as the transactions are when it is asked for. With a status a page may be short or empty and another
   * one follow. Each transaction that it finds has its tag, so it can be changed as after `get`.
   */
  search(filter?: TransactionSearchFilter, options?: CallOptions): PagedList<FoundTransaction>;
  changeStatus(target: Target, status: TransactionStatus, options?: ChangeOptions): Promise<Transaction>;
  /** Resolves when it is gone. After a lost answer another client may have removed it. */
  remove(target: Target, options?: ChangeOptions): Promise<void>;
  /** The tag with which this transaction was read; undefined for one from a list, and for a copy. */
  tagOf(transaction: Transaction): string | undefined;
}

/** Lists are remembered whole. */
const REMEMBERED_LISTS = 8;

export function createTransactions(settings: Settings, requests: Requests, change: Changes): Transactions {
  const remembered = new Remembered<number, Transaction>(settings.remembered);
  const rememberedIds = new Remembered<string, readonly number[]>(REMEMBERED_LISTS);
  const tags = new WeakMap<Transaction, string>();

  /** The transaction with these members; undefined for every other answer. */
  function transactionIn(answer: Answer, asked: Partial<Transaction>, status?: 200 | 201): Transaction | undefined {
    const transaction = jsonOf(answer, status);
    if (!isTransaction(transaction) || !hasMembers(transaction, asked)) return undefined;
    const tag = answer.headers.get('etag');
    if (tag !== null) tags.set(transaction, tag);
    return remembered.set(transaction.transactionId, tag, Object.freeze(transaction));
  }

  /** A transaction that a search found has its tag as a member. */
  const tagOf = (transaction: Transaction | FoundTransaction) =>
    tags.get(transaction) ?? ('etag' in transaction ? transaction.etag : undefined);

  function conditionOf(target: Target, ifMatch: string | undefined): { id: number; headers: Record<string, string> } {
    if (typeof target === 'number') return { id: target, headers: ifMatch === undefined ? {} : matchHeader(ifMatch) };
    const tag = tagOf(target);
    if (ifMatch !== undefined)
      throw new InvalidRequestError("'ifMatch' belongs to an id: a transaction has its own tag.");
    if (tag === undefined) {
      throw new InvalidRequestError(
        'This transaction has no tag: it is from a list, or a copy. Read it with get, or give its id.',
      );
    }
    return { id: target.transactionId, headers: { 'if-match': tag } };
  }

  return {
    async create(wanted, { idempotencyKey, ...options } = {}) {
      const request = { method: 'POST', path: '/api/transactions', body: JSON.stringify(wanted) } as const;
      return change(options, {
        request: { ...request, headers: keyHeader(idempotencyKey) },
        kind: idempotencyKey === undefined ? 'once' : 'repeatable',
        idempotencyKey,
        read(answer) {
          const transaction = transactionIn(answer, accountsOf(wanted), 201);
          return transaction && { transaction, replayed: isReplay(answer) };
        },
        afterwards: () => undefined,
      });
    },

    async createBatch(wanted, { idempotencyKey, ...options } = {}) {
      const body = JSON.stringify({ transactions: wanted });
      const request = { method: 'POST', path: '/api/transactions/batch', body } as const;
      return change(options, {
        request: { ...request, headers: keyHeader(idempotencyKey) },
        kind: idempotencyKey === undefined ? 'once' : 'repeatable',
        idempotencyKey,
        read(answer) {
          const created = jsonOf(answer, 201);
          const transactions = isObject(created) ? created.transactions : undefined;
          return isListFor(transactions, wanted) ? { transactions, replayed: isReplay(answer) } : undefined;
        },
        afterwards: () => undefined,
      });
    },

    async get(id, options = {}) {
      const path = pathOf(id);
      const request = () => {
        const known = remembered.get(id);
        return { method: 'GET', path, ...(known && { headers: { 'if-none-match': known.tag } }) } as const;
      };
      try {
        return await requests.send(options, request, (answer) => {
          const known = remembered.get(id);
          if (isNotModified(answer, known?.tag)) return known?.value;
          if (answer.status === 304) remembered.forget(id);
          return transactionIn(answer, { transactionId: id });
        });
      } catch (fault) {
        if (fault instanceof NotFoundError) remembered.forget(id);
        throw fault;
      }
    },

    list: (filter = {}, options = {}) =>
      askedAnew(() => {
        const request = { method: 'GET', path: listPathOf(filter, 'list') } as const;
        return elementsOf(requests.open(options, request, 'application/json'), isTransaction);
      }),

    ids: async (filter = {}, options = {}) => readIds(requests, rememberedIds, listPathOf(filter, 'ids'), options),

    search: (filter = {}, options = {}) =>
      pagedList(requests, options, () => {
        refuseUnknown(filter, 'option of search', SEARCH_FILTERS);
        const { status, limit } = filter;
        const parameters = { ...accountParameters(filter), status, limit: limit?.toString() };
        return { path: '/api/transactions/search', parameters, isElement: isFound };
      }),

    async changeStatus(target, status, { ifMatch, ...options } = {}) {
      const { id, headers } = conditionOf(target, ifMatch);
      const request = {
        method: 'PUT',
        path: `${pathOf(id)}/status`,
        headers,
        body: JSON.stringify({ status }),
      } as const;
      return change(options, {
        request,
        kind: 'repeatable',
        read: (answer) => transactionIn(answer, { transactionId: id, status }),
        // A conflict may be with an earlier attempt of this call, and that attempt may have changed a transaction that is gone now. Its
        // state of now cannot tell: another client may have made the same change, and this one must not believe that it was the first.
        afterwards: () => undefined,
      });
    },

    async remove(target, { ifMatch, ...options } = {}) {
      const { id, headers } = conditionOf(target, ifMatch);
      await change<'removed'>(options, {
        request: { method: 'DELETE', path: pathOf(id), headers },
        kind: 'repeatable',
        // It has no body, so the header alone can prove it.
        read: ({ status, headers }) => (status === 204 && hasOwnHeader(headers) ? 'removed' : undefined),
        afterwards(refusal) {
          if (refusal instanceof NotFoundError) return 'removed';
          // It is there, so no attempt removed it: ids are never used twice.
          return refusal instanceof ConflictError ? refusal : undefined;
        },
      });
      remembered.forget(id);
    },

    tagOf,
  };
}

function pathOf(id: number): string {
  if (Number.isSafeInteger(id) && id > 0) return `/api/transactions/${id}`;
  throw new InvalidRequestError('The id of a transaction is a whole number above 0.');
}

/** Null is refused like every other value that is none: a key that the caller lacks must not make a create that is not repeatable. */
function keyHeader(key: string | undefined): Record<string, string> {
  if (key === undefined) return {};
  if (typeof key === 'string' && /^[!-~]{1,64}$/.test(key)) return { 'idempotency-key': key };
  throw new InvalidRequestError("'idempotencyKey' must be 1 to 64 visible ASCII characters.");
}

function matchHeader(ifMatch: string): Record<string, string> {
  if (typeof ifMatch === 'string') return { 'if-match': ifMatch };
  throw new InvalidRequestError("'ifMatch' must be the tag of a transaction, as tagOf gives it.");
}

function isFound(value: unknown): value is FoundTransaction {
  return isTransaction(value) && 'etag' in value && typeof value.etag === 'string';
}

function hasMembers(transaction: Transaction, members: Partial<Transaction>): boolean {
  return Object.entries(members).every(([name, value]) => transaction[name as keyof Transaction] === value);
}

const accountsOf = ({ fromAccount, toAccount }: NewTransaction) => ({ fromAccount, toAccount });

function isListFor(rows: unknown, wanted: readonly NewTransaction[]): rows is readonly Transaction[] {
  return (
    Array.isArray(rows) &&
    rows.length === wanted.length &&
    rows.every((row, index) => isTransaction(row) && hasMembers(row, accountsOf(wanted[index] as NewTransaction)))
  );
}

const isReplay = ({ headers }: Answer) => headers.get('idempotent-replayed') === 'true';

const FILTERS = new Set(['from', 'to']);
const SEARCH_FILTERS = new Set([...FILTERS, 'status', 'limit']);

function listPathOf(filter: TransactionFilter, method: 'list' | 'ids'): string {
  refuseUnknown(filter, `option of ${method}`, FILTERS);
  return `/api/transactions${queryOf(accountParameters(filter))}`;
}

/** An empty one is no filter. */
const accountParameters = ({ from, to }: TransactionFilter) => ({ from: from || undefined, to: to || undefined });
