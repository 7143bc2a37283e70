import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ListTags } from '#idempay/transactions/list-tags.js';
import type { TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionSnapshot } from '#idempay/transactions/transaction-store.js';

const ALL: TransactionFilter = { from: '', to: '' };
const FROM_A: TransactionFilter = { from: 'A', to: '' };
const FIRST_ID = 100_000_000_000_001;

/** Spec 4.3 list rule 2. */
function tagOf(ids: readonly number[]): string {
  return createHash('md5')
    .update(`${ids.join('')}${ids.length}`)
    .digest('hex');
}

/** A list of transactions of two accounts, which counts the ids that it was asked for. */
class GrowingList {
  private rows: { readonly id: number; readonly from: string }[] = [];
  private lastId = FIRST_ID - 1;
  private version = 0;
  private lastRemovalVersion = 0;
  idsRead = 0;

  create(from: string): void {
    this.lastId += 1;
    this.version += 1;
    this.rows = [...this.rows, { id: this.lastId, from }];
  }

  /** Nothing when the list is empty: then no version moves either. */
  remove(position: number): void {
    if (this.rows.length === 0) return;
    const index = position % this.rows.length;
    this.rows = this.rows.filter((_, at) => at !== index);
    this.version += 1;
    this.lastRemovalVersion = this.version;
  }

  ids({ from }: TransactionFilter): number[] {
    return this.rows.filter((row) => from === '' || row.from === from).map(({ id }) => id);
  }

  snapshot(filter: TransactionFilter): TransactionSnapshot {
    const ids = this.ids(filter);
    return {
      version: this.version,
      lastRemovalVersion: this.lastRemovalVersion,
      ids: async (afterId, limit) => {
        const page = ids.filter((id) => id > afterId).slice(0, limit);
        this.idsRead += page.length;
        return page;
      },
      rows: async () => {
        throw new Error('a tag is made of ids alone');
      },
      close() {},
    };
  }
}

describe('list tags', () => {
  test('the tag of the empty list is the digest of its count', async () => {
    expect(await new ListTags().of(ALL, new GrowingList().snapshot(ALL))).toBe(tagOf([]));
  });

  test('whatever is created and removed, the tag is that of a list made anew', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('create A', 'create B') },
      { weight: 1, arbitrary: fc.nat(20) },
      { weight: 2, arbitrary: fc.constantFrom('look at all', 'look at A') },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const tags = new ListTags();
        const list = new GrowingList();
        for (const taken of [...steps, 'look at all', 'look at A']) {
          if (taken === 'create A') list.create('A');
          else if (taken === 'create B') list.create('B');
          else if (typeof taken === 'number') list.remove(taken);
          else {
            const filter = taken === 'look at A' ? FROM_A : ALL;
            expect(await tags.of(filter, list.snapshot(filter))).toBe(tagOf(list.ids(filter)));
          }
        }
      }),
    );
  });

  test('a list of several pages has the tag of the whole', async () => {
    const list = new GrowingList();
    for (let created = 0; created < 4_500; created += 1) list.create('A');
    expect(await new ListTags().of(ALL, list.snapshot(ALL))).toBe(tagOf(list.ids(ALL)));
    expect(list.idsRead).toBe(4_500);
  });

  test('a list that only grew costs its new ids alone, and one that did not change costs none', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    for (let created = 0; created < 100; created += 1) list.create('A');
    await tags.of(ALL, list.snapshot(ALL));
    list.create('A');
    await tags.of(ALL, list.snapshot(ALL));
    expect(list.idsRead).toBe(101);
    await tags.of(ALL, list.snapshot(ALL));
    expect(list.idsRead).toBe(101);
  });

  test('two that extend the same tag at once do not add the new ids twice', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    list.create('A');
    await tags.of(ALL, list.snapshot(ALL));
    list.create('A');
    const both = await Promise.all([tags.of(ALL, list.snapshot(ALL)), tags.of(ALL, list.snapshot(ALL))]);
    expect(both).toEqual([tagOf(list.ids(ALL)), tagOf(list.ids(ALL))]);
  });

  test('after a removal the whole list is read anew', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    for (let created = 0; created < 10; created += 1) list.create('A');
    await tags.of(ALL, list.snapshot(ALL));
    list.remove(3);
    list.create('A');
    expect(await tags.of(ALL, list.snapshot(ALL))).toBe(tagOf(list.ids(ALL)));
    expect(list.idsRead).toBe(20);
  });

  test('a tag is known at exactly its version and for its own filter', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    list.create('B');
    const snapshot = list.snapshot(ALL);
    expect(tags.known(ALL, snapshot.version)).toBeUndefined();
    const tag = await tags.of(ALL, snapshot);
    expect(tags.known(ALL, snapshot.version)).toBe(tag);
    expect(tags.known(FROM_A, snapshot.version)).toBeUndefined();
    expect(tags.known(ALL, snapshot.version + 1)).toBeUndefined();
  });

  test('filters that look alike when they are joined are told apart', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    list.create('A');
    const looksAlike = { from: 'A","', to: '' };
    const other = { from: 'A', to: '","' };
    await tags.of(looksAlike, list.snapshot(looksAlike));
    expect(tags.known(other, 1)).toBeUndefined();
  });

  test('the tag of an older snapshot that ends later is right for it, and does not replace the newer one', async () => {
    const tags = new ListTags();
    const list = new GrowingList();
    list.create('A');
    const older = list.snapshot(ALL);
    const olderTag = tagOf(list.ids(ALL));
    list.create('A');
    const newer = list.snapshot(ALL);
    const newerTag = await tags.of(ALL, newer);
    expect(await tags.of(ALL, older)).toBe(olderTag);
    expect(tags.known(ALL, newer.version)).toBe(newerTag);
    list.create('A');
    expect(await tags.of(ALL, list.snapshot(ALL))).toBe(tagOf(list.ids(ALL)));
  });
});
