import { createHash, type Hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { TransactionFilter } from './transaction.js';
import type { TransactionSnapshot } from './transaction-store.js';

/** Filters whose tag is remembered; a forgotten one costs one scan of its ids. */
const MAX_FILTERS = 1_000;
/** Ids read at a time: short enough that other requests are served between two pages. */
const ID_PAGE = 2_000;

export const EMPTY_LIST_TAG = createHash('md5').update('0').digest('hex');

interface KnownTag {
  readonly version: number;
  readonly lastId: number;
  readonly count: number;
  /** The digest over the ids so far, never finished: only copies are, so that it can be extended. */
  readonly digest: Hash;
  readonly tag: string;
}

/**
 * The list tag (spec 4.3 list rule 2): MD5 over the ids in list order, then their number. It depends on nothing but the
 * ids, so it is right for as long as the list version stands, and when the list only grew it is extended, not made anew.
 */
export class ListTags {
  private readonly tags = new LRUCache<string, KnownTag>({ max: MAX_FILTERS });

  /** The tag at exactly this version, without asking the store. */
  known(filter: TransactionFilter, version: number): string | undefined {
    const known = this.tags.get(filterKey(filter));
    return known?.version === version ? known.tag : undefined;
  }

  async of(filter: TransactionFilter, snapshot: TransactionSnapshot): Promise<string> {
    const key = filterKey(filter);
    const known = this.tags.get(key);
    if (known?.version === snapshot.version) return known.tag;

    const onlyGrown = known && known.version < snapshot.version && snapshot.lastRemovalVersion <= known.version;
    const digest = onlyGrown ? known.digest.copy() : createHash('md5');
    let lastId = onlyGrown ? known.lastId : 0;
    let count = onlyGrown ? known.count : 0;
    for (;;) {
      const ids = await snapshot.ids(lastId, ID_PAGE);
      digest.update(ids.join(''));
      count += ids.length;
      lastId = ids.at(-1) ?? lastId;
      if (ids.length < ID_PAGE) break;
    }

    const tag = digest.copy().update(String(count)).digest('hex');
    // A reader of an older snapshot may end later; what it found must not replace the newer tag.
    if ((this.tags.peek(key)?.version ?? -1) < snapshot.version) {
      this.tags.set(key, { version: snapshot.version, lastId, count, digest, tag });
    }
    return tag;
  }
}

function filterKey(filter: TransactionFilter): string {
  if (filter.from === '' && filter.to === '') return '';
  return JSON.stringify([filter.from, filter.to]);
}
