import type { TransactionCounts } from '../transactions/transaction-counts.js';
import { type Exposition, readingsOf } from './exposition.js';

/** Creates, the cache by id, and the tags of lists. */
export function showTransactions(exposition: Exposition, counts: TransactionCounts): void {
  exposition.counter(
    'idempay_transaction_creates_total',
    'Creates of one or many transactions by result; replayed, mismatch: their Idempotency-Key was used before, for the same or other rows.',
    () => readingsOf('result', counts.creates),
  );
  exposition.counter(
    'idempay_transaction_cache_lookups_total',
    'Reads of one transaction by what the cache said; bypass: it was not asked, or not to be used.',
    () => readingsOf('result', counts.lookUps),
  );
  exposition.counter(
    'idempay_transaction_cache_fills_total',
    'Transactions offered to the cache after a miss; refused: a write came between, or there is no room.',
    () => readingsOf('result', counts.fills),
  );
  exposition.counter(
    'idempay_transaction_cache_marks_total',
    'Write marks put before a change of a transaction.',
    () => [[{}, counts.marks]],
  );
  exposition.counter(
    'idempay_list_tags_total',
    'Tags of lists by what they took: known, extended by new ids, or rebuilt.',
    () => readingsOf('result', counts.tags),
  );
}
