import { LRUCache } from 'lru-cache';
import type { TransactionCache, WriteMark } from '../../transactions/ports/transaction-cache.js';
import type { Transaction } from '../../transactions/transaction.js';
import type { CachedTransactions, StoreCounters } from './key-value-store-report.js';

/** Entries kept, well under a kilobyte each: tens of megabytes when full. */
const MAX_ENTRIES = 100_000;

interface Standing {
  /** Tokens of the marks of writes under way on this id. */
  readonly marks: Set<string>;
  /** The newest version any of them has written; nothing may be stored once one of them ended without one. */
  newest: Transaction | 'nothing certain' | undefined;
}

/** The cache in the memory of the one process: every operation is atomic because the event loop runs it in one go. */
export function createEmbeddedTransactionCache(
  transactionCacheTtlMs: number,
  counters: StoreCounters,
  maxEntries = MAX_ENTRIES,
): TransactionCache & CachedTransactions {
  const entries = new LRUCache<number, Transaction>({
    // With `max` instead, each start would make room for all of them at once.
    maxSize: maxEntries,
    sizeCalculation: () => 1,
    ttl: transactionCacheTtlMs,
    dispose: (_transaction, _id, reason) => {
      if (reason === 'evict') counters.evictedKeys += 1;
      if (reason === 'expire') counters.expiredKeys += 1;
    },
  });
  const fillTokens = new Map<number, string>();
  const standing = new Map<number, Standing>();
  let tokens = 0;

  function lift({ id, token }: WriteMark, written: Transaction | 'nothing certain'): void {
    const marked = standing.get(id);
    if (!marked?.marks.delete(token)) return;
    marked.newest = newer(marked.newest, written);
    if (marked.marks.size > 0) return;
    standing.delete(id);
    if (marked.newest && marked.newest !== 'nothing certain') entries.set(id, marked.newest);
  }

  return {
    lookUp(id) {
      const transaction = entries.get(id);
      if (transaction) {
        counters.hits += 1;
        return { state: 'hit', transaction };
      }
      counters.misses += 1;
      if (standing.has(id)) return { state: 'bypass' };
      if (fillTokens.has(id)) return { state: 'miss', token: undefined };
      tokens += 1;
      const token = String(tokens);
      fillTokens.set(id, token);
      return { state: 'miss', token };
    },

    async fill(id, token, transaction) {
      if (fillTokens.get(id) !== token) return false;
      fillTokens.delete(id);
      entries.set(id, transaction);
      return true;
    },

    async forgo(id, token) {
      if (fillTokens.get(id) === token) fillTokens.delete(id);
    },

    async mark(id) {
      entries.delete(id);
      fillTokens.delete(id);
      tokens += 1;
      const token = String(tokens);
      const marked = standing.get(id);
      if (marked) marked.marks.add(token);
      else standing.set(id, { marks: new Set([token]), newest: undefined });
      return { id, token };
    },

    async refresh(mark, transaction) {
      lift(mark, transaction);
    },

    async evict(mark) {
      lift(mark, 'nothing certain');
    },

    peek(id) {
      const transaction = entries.peek(id);
      return transaction && { transaction, remainingMs: entries.getRemainingTTL(id) };
    },

    size: () => entries.size,
  };
}

function newer(known: Standing['newest'], written: Transaction | 'nothing certain'): Standing['newest'] {
  if (known === 'nothing certain' || written === 'nothing certain') return 'nothing certain';
  return known && known.version > written.version ? known : written;
}
