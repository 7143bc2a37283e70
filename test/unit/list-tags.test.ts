import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { ListTags } from '#idempay/transactions/list-tags.js';
import type { TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionSnapshot } from '#idempay/transactions/transaction-store.js';

const ALL: TransactionFilter = { from: '', to: '' };
const FROM_A: TransactionFilter = { from: 'A', to: '' };
const FIRST_ID = 100_000_000_000_001;
/** Small, so that a short list has many checkpoints. */
const ID_PAGE = 3;
/** As the service reads ids. */
const LARGE_PAGE = 2_000;
const POLLERS = 45;

/** Spec 4.3 list rule 2. */
function tagOf(ids: readonly number[]): string {
  return createHash('md5')
    .update(`${ids.join('')}${ids.length}`)
    .digest('hex');
}

interface Row {
  readonly id: number;
  readonly from: string;
}

/** A list of transactions of two accounts, which counts what was asked of it. */
class ChangingList {
  private rows: readonly Row[] = [];
  private removals: readonly (Row & { readonly version: number })[] = [];
  private lastId = FIRST_ID - 1;
  private version = 0;
  /** Removals up to this version are forgotten. */
  private forgotten = 0;
  idsRead = 0;
  opened = 0;
  closed = 0;
  /** While it is set, snapshots are opened when it resolves. */
  held: Promise<void> | undefined;

  create(from: string, count = 1): void {
    const created = Array.from({ length: count }, (_, index) => ({ id: this.lastId + 1 + index, from }));
    this.lastId += count;
    this.version += count;
    this.rows = [...this.rows, ...created];
  }

  /** Nothing when the list is empty: then no version moves either. */
  remove(position: number): void {
    const row = this.rows[position % this.rows.length];
    if (!row) return;
    this.version += 1;
    this.rows = this.rows.filter((other) => other !== row);
    this.removals = [...this.removals, { ...row, version: this.version }];
  }

  forgetRemovals(): void {
    this.removals = [];
    this.forgotten = this.version;
  }

  /** As after a failover to a standby without the newest rows. */
  goBackTo(count: number): void {
    this.rows = this.rows.slice(0, count);
    this.version = count;
  }

  ids(filter: TransactionFilter): number[] {
    return this.rows.filter((row) => isListed(row, filter)).map(({ id }) => id);
  }

  async listVersion(): Promise<number> {
    return this.version;
  }

  async openSnapshot(filter: TransactionFilter): Promise<TransactionSnapshot> {
    await this.held;
    this.opened += 1;
    const { version, removals, forgotten } = this;
    const ids = this.ids(filter);
    return {
      version,
      firstRemovedSince: async (since) => {
        if (since < forgotten) return 0;
        const removed = removals.filter((row) => row.version > since && isListed(row, filter));
        return Math.min(...removed.map(({ id }) => id), Number.POSITIVE_INFINITY);
      },
      ids: async (afterId, limit) => {
        const start = ids.indexOf(afterId) + 1;
        const page = ids.slice(start, start + limit);
        this.idsRead += page.length;
        return page;
      },
      rows: async () => {
        throw new Error('a tag is made of ids alone');
      },
      isWanted: () => false,
      close: () => {
        this.closed += 1;
      },
    };
  }

  /** Holds back the opening of snapshots until the returned function is called. */
  hold(): () => void {
    let release = () => {};
    this.held = new Promise((resolve) => {
      release = resolve;
    });
    return () => {
      this.held = undefined;
      release();
    };
  }

  /** The tag that a reader of the list is given, whose snapshot is closed again. */
  async tag(tags: ListTags, filter = ALL): Promise<string> {
    const { tag, snapshot } = await tags.open(filter, this);
    snapshot?.close();
    return tag;
  }

  /** How many ids are read meanwhile. */
  async idsReadBy(work: () => Promise<unknown>): Promise<number> {
    const before = this.idsRead;
    await work();
    return this.idsRead - before;
  }
}

/** A list of `count` transactions, and tags that know it. */
async function known(
  count: number,
  idPage?: number,
): Promise<{ readonly tags: ListTags; readonly list: ChangingList }> {
  const tags = new ListTags(idPage);
  const list = new ChangingList();
  list.create('A', count);
  await list.tag(tags);
  return { tags, list };
}

function isListed({ from }: Row, filter: TransactionFilter): boolean {
  return filter.from === '' || from === filter.from;
}

describe('list tags', () => {
  test('the tag of the empty list is the digest of its count', async () => {
    expect(await new ChangingList().tag(new ListTags())).toBe(tagOf([]));
  });

  test('after any creates and removals, the tag is that of a list made anew', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('create A', 'create B') },
      { weight: 2, arbitrary: fc.nat(60) },
      { weight: 2, arbitrary: fc.constantFrom('look at all', 'look at A') },
      { weight: 1, arbitrary: fc.constantFrom('forget the removals', 'create many') },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const tags = new ListTags(ID_PAGE);
        const list = new ChangingList();
        for (const taken of [...steps, 'look at all', 'look at A']) {
          if (typeof taken === 'number') list.remove(taken);
          else if (taken === 'create many') list.create('A', 20);
          else if (taken === 'forget the removals') list.forgetRemovals();
          else if (taken.startsWith('create')) list.create(taken.at(-1) as string);
          else {
            const filter = taken === 'look at A' ? FROM_A : ALL;
            expect(await list.tag(tags, filter)).toBe(tagOf(list.ids(filter)));
          }
        }
        expect(list.closed).toBe(list.opened);
      }),
    );
  });

  test('a list of several pages has the tag of the whole', async () => {
    const { tags, list } = await known(4_500);
    expect(list.idsRead).toBe(4_500);
    expect(await list.tag(tags)).toBe(tagOf(list.ids(ALL)));
  });

  test('a list that only grew costs its new ids alone, and one that did not change costs none', async () => {
    const { tags, list } = await known(100);
    list.create('A');
    expect(await list.idsReadBy(() => list.tag(tags))).toBe(1);
    expect(await list.idsReadBy(() => list.tag(tags))).toBe(0);
  });

  test('a question whether the tag is still the same opens no snapshot when it is known', async () => {
    const { tags, list } = await known(1);
    const tag = tagOf(list.ids(ALL));
    const { opened } = list;
    expect(await tags.open(ALL, list, (other) => other === tag)).toEqual({ tag });
    expect(list.opened).toBe(opened);
  });

  /**
   * Bug: after one removal each of many pollers read the whole list again, at the same time. Cause: a removal made the
   * digest worthless, and no request waited for the tag that another one was making already. Fix: checkpoints of the digest,
   * and one making for each filter and version.
   */
  describe('after a removal', () => {
    test('45 that ask at once whether their tag is the newest share one reading of the ids behind the removed one', async () => {
      const { tags, list } = await known(50_000);
      expect(list.idsRead).toBe(50_000);
      list.remove(40_000);
      const newest = tagOf(list.ids(ALL));
      const { opened } = list;
      const read = await list.idsReadBy(async () => {
        const polls = Array.from({ length: POLLERS }, () => tags.open(ALL, list, (tag) => tag === newest));
        for (const poll of await Promise.all(polls)) expect(poll).toEqual({ tag: newest });
      });
      expect(read).toBeLessThan(10_000 + 2 * LARGE_PAGE);
      expect(list.opened - opened).toBe(1);
      expect(list.closed).toBe(list.opened);
    });

    test('requests for the list have a snapshot each, and share the reading of the ids', async () => {
      const { tags, list } = await known(100, ID_PAGE);
      list.remove(0);
      const reading = async () => {
        const { snapshot, tag } = await tags.open(ALL, list, () => false);
        expect(tag).toBe(tagOf(list.ids(ALL)));
        snapshot?.close();
      };
      expect(await list.idsReadBy(() => Promise.all(Array.from({ length: POLLERS }, reading)))).toBe(99);
      expect(list.closed).toBe(list.opened);
    });

    test.each([0, 50, 500, 998])(
      'of place %i of a thousand, the ids behind it are read, and at most two pages before it',
      async (place) => {
        const { tags, list } = await known(1_000, ID_PAGE);
        list.remove(place);
        expect(await list.idsReadBy(() => list.tag(tags))).toBeLessThanOrEqual(999 - place + 2 * ID_PAGE);
      },
    );

    test.each([0, 1, 2, 3, 5, 8])(
      'of place %i of twelve, no checkpoint keeps counting the removed id',
      async (place) => {
        const { tags, list } = await known(12, ID_PAGE);
        list.remove(place);
        await list.tag(tags);
        for (let left = 10; left > place; left -= 1) {
          list.remove(left);
          expect(await list.tag(tags)).toBe(tagOf(list.ids(ALL)));
        }
      },
    );

    test('from another filtered list, the list costs nothing but a look for new ids', async () => {
      const tags = new ListTags();
      const list = new ChangingList();
      list.create('B');
      list.create('A', 100);
      const tag = await list.tag(tags, FROM_A);
      list.remove(0);
      expect(await list.idsReadBy(async () => expect(await list.tag(tags, FROM_A)).toBe(tag))).toBe(0);
    });

    test('the end of a list that is polled after every create does not fill the memory with checkpoints', async () => {
      const { tags, list } = await known(0, 100);
      for (let created = 0; created < 1_000; created += 1) {
        list.create('A');
        await list.tag(tags);
      }
      list.remove(550);
      expect(await list.idsReadBy(() => list.tag(tags))).toBeLessThanOrEqual(550);
    });
  });

  describe('while another request makes the tag', () => {
    let tags: ListTags;
    let list: ChangingList;

    beforeEach(() => {
      tags = new ListTags();
      list = new ChangingList();
      list.create('A');
    });

    test('a reader that knows of a newer version does not take the older tag', async () => {
      const release = list.hold();
      const first = tags.open(ALL, list, () => true);
      await Promise.resolve();
      release();
      list.create('A');
      const second = tags.open(ALL, list, () => true);
      await first;
      expect(await second).toEqual({ tag: tagOf(list.ids(ALL)) });
    });

    test('its failure is the failure of all that wait, and the next one tries again', async () => {
      list.held = Promise.reject(new Error('no snapshot'));
      const waiting = Array.from({ length: 5 }, () => tags.open(ALL, list, () => true));
      for (const outcome of await Promise.allSettled(waiting)) expect(outcome.status).toBe('rejected');
      list.held = undefined;
      expect((await tags.open(ALL, list, () => true)).tag).toBe(tagOf(list.ids(ALL)));
    });

    test('that fails while it reads ids closes its snapshot', async () => {
      const fault = new Error('no ids');
      const openSnapshot = async (filter: TransactionFilter) => {
        return { ...(await list.openSnapshot(filter)), ids: () => Promise.reject(fault) };
      };
      const failing = { listVersion: () => list.listVersion(), openSnapshot };
      await expect(tags.open(ALL, failing)).rejects.toBe(fault);
      expect([list.opened, list.closed]).toEqual([1, 1]);
    });

    test('of a newer snapshot, an older one is opened again', async () => {
      let opened = 0;
      const openSnapshot = async (filter: TransactionFilter) => {
        opened += 1;
        const snapshot = await list.openSnapshot(filter);
        if (opened > 1) return snapshot;
        list.create('A');
        await list.tag(tags);
        return snapshot;
      };
      const { tag, snapshot } = await tags.open(ALL, { listVersion: () => list.listVersion(), openSnapshot });
      expect(tag).toBe(tagOf(list.ids(ALL)));
      snapshot?.close();
      expect(opened).toBe(2);
      expect(list.closed).toBe(list.opened);
    });
  });

  test('a store that has gone back is believed, and its tag made from nothing', async () => {
    const { tags, list } = await known(10);
    list.goBackTo(4);
    expect(await list.tag(tags)).toBe(tagOf(list.ids(ALL)));
    expect(list.ids(ALL)).toHaveLength(4);
  });

  test('filters that look alike when they are joined have tags of their own', async () => {
    const { tags, list } = await known(1);
    await list.tag(tags, { from: 'A","', to: '' });
    expect(await list.tag(tags, { from: 'A', to: '","' })).toBe(tagOf(list.ids(FROM_A)));
  });
});
