import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { AllSnapshotsInUse, StoreUnavailable } from '../platform/faults.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import { type Checkpoint, lastBefore, sparse } from './digest-checkpoints.js';
import type { TransactionSnapshot, TransactionStore } from './ports/transaction-store.js';
import { LONG_LIST, type TransactionFilter } from './transaction.js';
import { createTransactionCounts, type TransactionCounts } from './transaction-counts.js';

/** Filters whose tag is remembered; a forgotten one costs one scan of its ids. */
const MAX_FILTERS = 1_000;
/** Checkpoints of all filters together, each well under a kilobyte: a few megabytes, and little work for the collector. */
const MAX_CHECKPOINTS_IN_ALL = 10_000;
/** Ids read at a time: short enough that other requests are served between two pages. */
const ID_PAGE = 2_000;
/** A snapshot that is older than a tag made meanwhile is opened again. All tries are used only if the list changes faster than that. */
const MAX_TRIES = 10;

export const EMPTY_LIST_TAG = createHash('md5').update('0').digest('hex');

interface MadeTag {
  readonly version: number;
  readonly tag: string;
  /** How many ids it is made of. */
  readonly count: number;
}

interface KnownTag extends MadeTag {
  /** Rising; the last one is the end of the list. */
  readonly checkpoints: readonly Checkpoint[];
}

interface TaggedSnapshot extends MadeTag {
  /** The caller that opened it closes it. */
  readonly snapshot: TransactionSnapshot;
}

export type OpenedTag =
  | Pick<TaggedSnapshot, 'tag' | 'snapshot'>
  | { readonly tag: string; readonly snapshot?: undefined };

type Store = Pick<TransactionStore, 'listVersion' | 'openSnapshot'>;

/**
 * The list tag (spec 4.3 list rule 2): MD5 over the ids in list order, then their number. It depends on nothing but the
 * ids, so it is right for as long as the list version stands. When the list grew the tag is extended; after a removal it is
 * made anew from the last checkpoint before the removed id. One request does so for each filter and version; others wait for it, and
 * never for its turn at a long list.
 */
export class ListTags {
  private readonly known = new LRUCache<string, KnownTag>({
    max: MAX_FILTERS,
    maxSize: MAX_CHECKPOINTS_IN_ALL,
    sizeCalculation: ({ checkpoints }) => checkpoints.length,
  });
  /** By filter: the tag that the first of several requests finds, from the opening of its snapshot on. Undefined if a newer one is known. */
  private readonly opening = new Map<string, Promise<MadeTag | undefined>>();
  /** By filter: the reading of ids that is under way. */
  private readonly making = new Map<string, Promise<MadeTag>>();

  constructor(
    private readonly idPage = ID_PAGE,
    private readonly counts: TransactionCounts['tags'] = createTransactionCounts().tags,
  ) {}

  /**
   * The tag of the list as it was at some moment after the call, with the snapshot of that moment; without a snapshot when
   * `isEnough` says so of the tag. A caller with `isEnough` waits for a tag that another request makes, without holding a snapshot.
   */
  open(filter: TransactionFilter, store: Store, isEnough?: (tag: string) => boolean): NowOrLater<OpenedTag> {
    const key = filterKey(filter);
    if (!isEnough) return this.openTagged(key, filter, store);
    const version = store.listVersion();
    return version instanceof Promise
      ? version.then((later) => this.openSince(later, key, filter, store, isEnough))
      : this.openSince(version, key, filter, store, isEnough);
  }

  /** A tag of that version of the list or a later one. */
  private openSince(
    version: number,
    key: string,
    filter: TransactionFilter,
    store: Store,
    isEnough: (tag: string) => boolean,
  ): NowOrLater<OpenedTag> {
    const made = this.known.get(key);
    if (made && made.version >= version && isEnough(made.tag)) return { tag: this.alreadyKnown(made) };
    return this.openOnceMade(version, key, filter, store, isEnough);
  }

  private async openOnceMade(
    version: number,
    key: string,
    filter: TransactionFilter,
    store: Store,
    isEnough: (tag: string) => boolean,
  ): Promise<OpenedTag> {
    // Nothing is awaited between this look and `openTagged`: only one of many requests goes on from here.
    let made: MadeTag | undefined = this.known.get(key);
    while ((made?.version ?? -1) < version) {
      const other = this.opening.get(key);
      if (!other) break;
      try {
        made = (await other) ?? this.known.get(key);
      } catch (fault) {
        // The other one's client got no snapshot, but ours may get one.
        if (fault instanceof AllSnapshotsInUse) break;
        throw fault;
      }
    }
    if (made && made.version >= version && isEnough(made.tag)) return { tag: this.alreadyKnown(made) };
    const opened = await this.openTagged(key, filter, store, isEnough);
    if (!isEnough(opened.tag)) return opened;
    opened.snapshot.close();
    return { tag: opened.tag };
  }

  /** A list that turns out to be long, while too many long ones are read, is opened again when it is its turn. */
  private async openTagged(
    key: string,
    filter: TransactionFilter,
    store: Store,
    isEnough?: (tag: string) => boolean,
  ): Promise<TaggedSnapshot> {
    let long: number | 'at the end' | undefined = !isEnough && this.isKnownToBeLong(key) ? 'at the end' : undefined;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const newest = this.known.peek(key)?.version ?? 0;
      const opening = this.openOnce(key, newest, store.openSnapshot(filter, long));
      // A request that waits for its turn at a long list keeps no other request waiting.
      if (long === undefined) this.share(key, opening);
      const { snapshot, made } = await opening;
      try {
        if (made) {
          long = placeFor(made, snapshot, isEnough);
          if (long === undefined) return { ...made, snapshot };
        }
      } catch (fault) {
        snapshot.close();
        throw fault;
      }
      snapshot.close();
    }
    throw new StoreUnavailable('unchanged', 'the list changes faster than it can be read');
  }

  /** If no other request opens a snapshot for this filter, later requests can wait for the tag of this one. */
  private share(key: string, opening: Promise<{ readonly made: MadeTag | undefined }>): void {
    if (this.opening.has(key)) return;
    const end = () => this.opening.delete(key);
    const made = opening.then((opened) => opened.made).finally(end);
    made.catch(ignore);
    this.opening.set(key, made);
  }

  /** With the tag of the snapshot; undefined if a newer one is known already. `newest`: the version that was known before it was opened. */
  private async openOnce(key: string, newest: number, opening: Promise<TransactionSnapshot>) {
    const snapshot = await opening;
    try {
      // The store returned to an older version (a failover or a restore), so tags of later versions are invalid.
      if (snapshot.version < newest) this.known.delete(key);
      return { snapshot, made: await this.tagOf(key, snapshot) };
    } catch (fault) {
      snapshot.close();
      throw fault;
    }
  }

  private isKnownToBeLong(key: string): boolean {
    return (this.known.peek(key)?.count ?? 0) >= LONG_LIST;
  }

  /** Undefined when a newer tag is known already, from which the one of an older snapshot cannot be made. */
  private async tagOf(key: string, snapshot: TransactionSnapshot): Promise<MadeTag | undefined> {
    for (;;) {
      const known = this.known.get(key);
      if (known?.version === snapshot.version) return this.counted(known);
      if (known && known.version > snapshot.version) return undefined;
      const other = this.making.get(key);
      if (!other) break;
      const made = await other.catch(ignore);
      if (made?.version === snapshot.version) return this.counted(made);
    }
    const making = this.make(key, snapshot);
    this.making.set(key, making);
    try {
      return await making;
    } finally {
      this.making.delete(key);
    }
  }

  private alreadyKnown(made: MadeTag): string {
    return this.counted(made).tag;
  }

  private counted({ version, tag, count }: MadeTag): MadeTag {
    this.counts.known += 1;
    return { version, tag, count };
  }

  private async make(key: string, snapshot: TransactionSnapshot): Promise<MadeTag> {
    const known = this.known.peek(key);
    const firstChanged = known ? await snapshot.firstRemovedSince(known.version) : 0;
    const start = lastBefore(known?.checkpoints ?? [], firstChanged);
    let checkpoints = known?.checkpoints.filter(({ lastId }) => lastId < firstChanged) ?? [];
    let { lastId, count } = start;
    const digest = start.digest.copy();
    for (;;) {
      const ids = await snapshot.ids(lastId, this.idPage);
      digest.update(ids.join(''));
      count += ids.length;
      lastId = ids.at(-1) ?? lastId;
      checkpoints = sparse([...checkpoints, { lastId, count, digest: digest.copy() }], this.idPage);
      if (ids.length < this.idPage) break;
    }
    const { version } = snapshot;
    const tag = digest.update(String(count)).digest('hex');
    this.known.set(key, { version, tag, count, checkpoints });
    if (known && firstChanged === Number.POSITIVE_INFINITY) this.counts.extended += 1;
    else this.counts.rebuilt += 1;
    return { version, tag, count };
  }
}

/** Undefined if the list may be read from this snapshot. Otherwise the place in the line for one that it may be read from. */
function placeFor({ count, tag }: MadeTag, snapshot: TransactionSnapshot, isEnough?: (tag: string) => boolean) {
  return count < LONG_LIST || isEnough?.(tag) ? undefined : snapshot.lengthen();
}

function filterKey(filter: TransactionFilter): string {
  if (filter.from === '' && filter.to === '') return '';
  return JSON.stringify([filter.from, filter.to]);
}

function ignore(): undefined {
  return undefined;
}
