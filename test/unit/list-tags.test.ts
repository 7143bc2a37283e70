import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { AllSnapshotsInUse } from '#idempay/platform/faults.js';
import { firstRemovedId, type RemovalRow } from '#idempay/stores/shared/transaction-rows.js';
import { sparse } from '#idempay/transactions/digest-checkpoints.js';
import { ListTags } from '#idempay/transactions/list-tags.js';
import type { TransactionSnapshot } from '#idempay/transactions/ports/transaction-store.js';
import type { TransactionFilter } from '#idempay/transactions/transaction.js';

const ALL: TransactionFilter = { from: '', to: '' };
const FIRST_ID = 100_000_000_000_001;
const FROM_A: TransactionFilter = { from: 'A', to: '' };
/** Small, so that a short list has many checkpoints. */
const ID_PAGE = 3;
/** As the service reads ids. */
const LARGE_PAGE = 2_000;
const POLLERS = 45;

/** Spec 4.3 list rule 2. */
function tagOf(ids: readonly number[]): string {
  const text = `${ids.join('')}${ids.length}`;
  return createHash('md5').update(text).digest('hex');
}

/** A list of transactions of two accounts, which counts what was asked of it. */
class ChangingList {
  rows: { readonly id: number; readonly from: string; removedAt: number }[] = [];
  version = 0;
  /** Removals up to this version are forgotten. */
  forgotten = 0;
  idsRead = 0;
  opened = 0;
  closed = 0;
  /** Runs between the moment of a snapshot and its return. */
  whileOpening: () => Promise<unknown> = async () => {};
  readFault: Error | undefined;

  create(from: string, count = 1): void {
    for (let made = 0; made < count; made += 1) {
      this.rows.push({ id: FIRST_ID + this.rows.length, from, removedAt: Number.POSITIVE_INFINITY });
    }
    this.version += count;
  }

  /** Nothing when the list is empty: then no version moves either. */
  remove(position: number): void {
    const left = this.rows.filter(({ removedAt }) => removedAt > this.version);
    const row = left[position % left.length];
    if (row) row.removedAt = this.version += 1;
  }

  ids({ from } = ALL, removedAfter = this.version, removedUntil = Number.POSITIVE_INFINITY): number[] {
    return this.rows
      .filter((row) => row.removedAt > removedAfter && row.removedAt <= removedUntil && [row.from, ''].includes(from))
      .map(({ id }) => id);
  }

  async listVersion(): Promise<number> {
    return this.version;
  }

  async openSnapshot(filter: TransactionFilter): Promise<TransactionSnapshot> {
    const { version, forgotten } = this;
    const ids = this.ids(filter);
    await this.whileOpening();
    this.opened += 1;
    return {
      version,
      firstRemovedSince: async (since) => {
        return since < forgotten ? 0 : Math.min(...this.ids(filter, since, version), Number.POSITIVE_INFINITY);
      },
      ids: async (afterId, limit) => {
        if (this.readFault) throw this.readFault;
        const start = ids.indexOf(afterId) + 1;
        const page = ids.slice(start, start + limit);
        this.idsRead += page.length;
        return page;
      },
      rows: () => Promise.reject(new Error('a tag is made of ids alone')),
      isWanted: () => false,
      isOwed: () => false,
      lengthen: () => undefined,
      close: () => {
        this.closed += 1;
      },
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
async function known(count: number, idPage?: number) {
  const tags = new ListTags(idPage);
  const list = new ChangingList();
  list.create('A', count);
  await list.tag(tags);
  return { tags, list };
}

describe('list tags', () => {
  test('after any creates and removals, the tag is that of a list made anew', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('create A', 'create B') },
      { weight: 2, arbitrary: fc.nat(60) },
      { weight: 2, arbitrary: fc.constantFrom('look at all', 'look at A') },
      { weight: 1, arbitrary: fc.constantFrom('forget the removals', 'create many') },
    );
    /** After a removal no checkpoint may count the removed id: removals from the end start from each of them. */
    const examples = [0, 1, 2, 3, 5, 8].map((place): [(string | number)[]] => {
      const fromTheEnd = Array.from({ length: 19 }, (_, index) => 18 - index);
      return [['create many', ...[place, ...fromTheEnd].flatMap((removed) => ['look at all', removed])]];
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const tags = new ListTags(ID_PAGE);
        const list = new ChangingList();
        const look = async (filter: typeof ALL) => {
          expect(await list.tag(tags, filter)).toBe(tagOf(list.ids(filter)));
        };
        const take: Readonly<Record<string, () => unknown>> = {
          'create A': () => list.create('A'),
          'create B': () => list.create('B'),
          'create many': () => list.create('A', 20),
          'forget the removals': () => {
            list.forgotten = list.version;
          },
          'look at all': () => look(ALL),
          'look at A': () => look(FROM_A),
        };
        for (const taken of [...steps, 'look at all', 'look at A']) {
          await (typeof taken === 'number' ? list.remove(taken) : (take[taken] as () => unknown)());
        }
        expect(list.closed).toBe(list.opened);
      }),
      { examples: [[[]], ...examples] },
    );
  });

  test('a list that only grew costs its new ids alone, and one that did not change costs none', async () => {
    const { tags, list } = await known(100);
    list.create('A');
    expect(await list.idsReadBy(() => list.tag(tags))).toBe(1);
    expect(await list.idsReadBy(() => list.tag(tags))).toBe(0);
    const { opened } = list;
    const tag = tagOf(list.ids());
    expect(await tags.open(ALL, list, (other) => other === tag)).toEqual({ tag });
    expect(list.opened, 'a known tag needs no snapshot').toBe(opened);
  });

  test('after the store returned to an older version, its tag is made from the start', async () => {
    const { tags, list } = await known(10);
    // As after a failover to a standby without the newest rows.
    list.rows.length = 4;
    list.version = 4;
    expect(await list.tag(tags)).toBe(tagOf(list.ids()));
  });

  test('filters that look alike when they are joined have tags of their own', async () => {
    const { tags, list } = await known(1);
    await list.tag(tags, { from: 'A","', to: '' });
    expect(await list.tag(tags, { from: 'A', to: '","' })).toBe(tagOf(list.ids()));
  });

  /**
   * Bug: after one removal each of many pollers read the whole list again, at the same time. Cause: a removal made the
   * digest worthless, and no request waited for the tag that another one was making already. Fix: checkpoints of the digest,
   * and one making for each filter and version.
   */
  describe('after a removal', () => {
    test.each([
      { what: 'whether their tag is the newest', hasNewest: true, snapshots: 1 },
      { what: 'for the list, with a snapshot each,', hasNewest: false, snapshots: POLLERS },
    ])('45 that ask at once $what share one reading of the ids behind the removed one', async (given) => {
      const { tags, list } = await known(50_000);
      expect(list.idsRead).toBe(50_000);
      list.remove(40_000);
      const newest = tagOf(list.ids());
      const ask = async () => {
        const { tag, snapshot } = await tags.open(ALL, list, () => given.hasNewest);
        expect([tag, snapshot === undefined]).toEqual([newest, given.hasNewest]);
        snapshot?.close();
      };
      const read = await list.idsReadBy(() => Promise.all(Array.from({ length: POLLERS }, ask)));
      expect(read).toBeLessThan(10_000 + 2 * LARGE_PAGE);
      expect([list.opened, list.closed]).toEqual([1 + given.snapshots, 1 + given.snapshots]);
    });

    test.each([0, 500, 998])('of place %i of a thousand, at most two pages before it are read again', async (place) => {
      const { tags, list } = await known(1_000, ID_PAGE);
      list.remove(place);
      expect(await list.idsReadBy(() => list.tag(tags))).toBeLessThanOrEqual(999 - place + 2 * ID_PAGE);
    });

    test('from another filtered list, the list costs nothing but a look for new ids', async () => {
      const { tags, list } = await known(100);
      list.create('B');
      const tag = await list.tag(tags, FROM_A);
      list.remove(100);
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
    const ask = () => tags.open(ALL, list, () => true);

    beforeEach(() => {
      tags = new ListTags();
      list = new ChangingList();
      list.create('A');
    });

    /** Lets the next snapshot be older than a transaction, and `work` be done before it is there. */
    function createWhileOpening(work: () => unknown): void {
      list.whileOpening = async () => {
        list.whileOpening = async () => {};
        list.create('A');
        await work();
      };
    }

    test('a reader that knows of a newer version does not take the older tag', async () => {
      let second: ReturnType<typeof ask> | undefined;
      createWhileOpening(() => {
        second = ask();
      });
      expect(await ask()).toEqual({ tag: tagOf(list.ids().slice(0, 1)) });
      expect(await second).toEqual({ tag: tagOf(list.ids()) });
    });

    test('of a newer snapshot, an older one is opened again', async () => {
      createWhileOpening(() => list.tag(tags));
      expect(await list.tag(tags)).toBe(tagOf(list.ids()));
      expect([list.opened, list.closed]).toEqual([3, 3]);
    });

    test('but has no snapshot, another one asks for a snapshot of its own', async () => {
      const { whileOpening } = list;
      list.whileOpening = () => {
        list.whileOpening = whileOpening;
        return Promise.reject(new AllSnapshotsInUse(1));
      };
      const [first, ...others] = await Promise.allSettled([ask(), ask(), ask()]);
      expect(first).toMatchObject({ status: 'rejected', reason: expect.any(AllSnapshotsInUse) });
      const value = { tag: tagOf(list.ids()) };
      expect(others).toEqual(Array(2).fill({ status: 'fulfilled', value }));
      expect([list.opened, list.closed]).toEqual([2, 2]);
    });

    test('its failure is the failure of all that wait, and the next one tries again', async () => {
      list.whileOpening = () => Promise.reject(new Error('no snapshot'));
      const outcomes = await Promise.allSettled([ask(), ask(), ask()]);
      expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['rejected']));
      list.whileOpening = async () => {};
      list.readFault = new Error('no ids');
      await expect(ask()).rejects.toBe(list.readFault);
      list.readFault = undefined;
      expect((await ask()).tag).toBe(tagOf(list.ids()));
      expect([list.opened, list.closed]).toEqual([2, 2]);
    });
  });
});

/** So many checkpoints, each so far behind the one before. */
const rising = (length: number, distance: number) => Array.from({ length }, (_, index) => (index + 1) * distance);

test.each<[what: string, counts: readonly number[], kept: readonly number[]]>([
  ['none of none', [], []],
  ['all of 256, which is as many as are kept', rising(256, 10), rising(256, 10)],
  ['each second of 257', rising(257, 10), [...rising(128, 20), 2_570]],
  ['each fourth of 1,000', rising(1_000, 10), rising(250, 40)],
  ['the end, and none that is too close to the one before', [10, 15, 20, 29, 30, 31], [10, 20, 30, 31]],
])('of the checkpoints of a list are kept: %s', (_what, counts, kept) => {
  const checkpoints = counts.map((count) => ({ lastId: count, count, digest: createHash('md5') }));
  expect(sparse(checkpoints, 10).map(({ count }) => count)).toEqual(kept);
});

test('the first id removed since a version is unknown when a removal between was not remembered', () => {
  /** The removal of an id that moved the list to `version`, after one that had moved it to `previous_version`. */
  const removal = (version: number, previous_version: number, id: number): RemovalRow => {
    return { version, previous_version, id, from_account: 'A', to_account: 'B' };
  };
  const [newest, middle, oldest] = [removal(30, 20, 7), removal(20, 12, 5), removal(12, 0, 9)];
  expect(firstRemovedId([newest, middle, oldest], 30, 0, ALL)).toBe(5);
  // As when the newest one, or one between, has been overwritten.
  expect(firstRemovedId([newest, middle, oldest], 31, 0, ALL)).toBe(0);
  expect(firstRemovedId([newest, oldest], 30, 0, ALL)).toBe(0);
  expect(firstRemovedId([newest], 30, 19, ALL)).toBe(0);
});
