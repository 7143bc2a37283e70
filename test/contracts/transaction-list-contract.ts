import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { REMEMBERED_REMOVALS } from '#idempay/deployments/transaction-removals.js';
import type { Transaction, TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionSnapshot } from '#idempay/transactions/transaction-store.js';
import { alongside } from '../../testkit/concurrency.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';

/** Small, so that a short list has several pages. */
const PAGE = 7;
/** Where pages are not the point: a list that grows meanwhile must not outrun its reader. */
const LARGE_PAGE = 5_000;
const DEADLINE_MS = 20_000;

/**
 * What every TransactionStore guarantees of its lists beyond its types:
 *
 *  1. `listVersion` is moved by every create and removal, and by nothing else.
 *  2. It is at least as new as every write acknowledged before the call, and as every snapshot shown before it.
 *  3. `firstRemovedSince` is the lowest id of the filtered list that was removed after a version; 0 where too many removals
 *     lie between, or one was not remembered.
 *  4. Ids rise in commit order: what a snapshot shows is the beginning of what a later one shows, removals aside.
 *  5. A snapshot is of one moment: writes that happen meanwhile do not show in its version, its ids or its rows.
 *  6. Pages follow each other without gap or repetition, rising by id, `ids` and `rows` alike.
 *  7. A filter selects the accounts that are equal code point by code point, both when both are given.
 */
export function describeTransactionListContract(ports: ContractPorts): void {
  describe('the contract of transaction lists', () => {
    const { transactions: store } = ports;

    function create(fromAccount: string, toAccount = 'B'): Promise<Transaction> {
      return store.create({ fromAccount, toAccount, amount: '1', status: 'PENDING' });
    }

    async function createInOrder(count: number, fromAccount: string): Promise<Transaction[]> {
      const created = await Promise.all(Array.from({ length: count }, () => create(fromAccount)));
      return created.sort((a, b) => a.id - b.id);
    }

    async function withSnapshot<T>(
      filter: Partial<TransactionFilter>,
      read: (snapshot: TransactionSnapshot) => Promise<T>,
    ): Promise<T> {
      const snapshot = await store.openSnapshot({ from: '', to: '', ...filter });
      try {
        return await read(snapshot);
      } finally {
        snapshot.close();
      }
    }

    /** All of a list, by pages. */
    async function pagesOf<T>(read: (after: T | undefined) => Promise<readonly T[]>, page: number): Promise<T[]> {
      const all: T[] = [];
      for (;;) {
        const next = await read(all.at(-1));
        all.push(...next);
        if (next.length < page) return all;
      }
    }
    const allIds = (snapshot: TransactionSnapshot, page = LARGE_PAGE) =>
      pagesOf<number>((after = 0) => snapshot.ids(after, page), page);
    const allRows = (snapshot: TransactionSnapshot, page = LARGE_PAGE) =>
      pagesOf<Transaction>((after) => snapshot.rows(after?.id ?? 0, page), page);

    const idsFrom = (from: string) => withSnapshot({ from }, (snapshot) => allIds(snapshot));
    const snapshotVersion = () => withSnapshot({}, async ({ version }) => version);

    async function whileWriting(
      width: number,
      write: () => Promise<unknown>,
      what: string,
      look: () => Promise<boolean>,
    ) {
      const writing = async () => void (await write());
      await alongside(width, writing, async () => void (await until(what, DEADLINE_MS, look)));
    }

    test('1, 2: an acknowledged create moves the version, and so does an acknowledged removal', async () => {
      const atFirst = await store.listVersion();
      const { id } = await create('A');
      const created = await store.listVersion();
      expect(created).toBeGreaterThan(atFirst);
      expect(await snapshotVersion()).toBe(created);
      await store.remove(id);
      expect(await store.listVersion()).toBeGreaterThan(created);
    });

    test('1: a change of status, and whatever was not found or not permitted, leave the version alone', async () => {
      const { id } = await create('A');
      const version = await store.listVersion();
      await store.changeStatus(id, 'FLAGGED');
      await store.changeStatus(id, 'FLAGGED', ['PENDING']);
      await store.remove(id, ['PENDING']);
      await store.remove(id + 1_000_000);
      expect([await store.listVersion(), await snapshotVersion()]).toEqual([version, version]);
    });

    test('1: each of many creates at once moves the version from where it was when the create was sent', async () => {
      const moves = Array.from({ length: 20 }, async () => {
        const before = await store.listVersion();
        await create('A');
        return (await store.listVersion()) - before;
      });
      for (const moved of await Promise.all(moves)) expect(moved).toBeGreaterThan(0);
    });

    test('2: the version is never older than a snapshot that was shown, while writes go on', async () => {
      const shown = new Set<number>();
      await whileWriting(
        2,
        () => create('A'),
        'twenty different versions',
        async () => {
          const version = await snapshotVersion();
          expect(await store.listVersion()).toBeGreaterThanOrEqual(version);
          return shown.add(version).size >= 20;
        },
      );
    });

    const firstRemovedSince = (version: number, filter: Partial<TransactionFilter> = {}) =>
      withSnapshot(filter, (snapshot) => snapshot.firstRemovedSince(version));

    test('3: the first removed id is the lowest one since a version, whatever is created meanwhile', async () => {
      const created = await createInOrder(5, 'A');
      const [first, second, third, fourth] = created.map(({ id }) => id) as [number, number, number, number];
      const version = await store.listVersion();
      expect(await firstRemovedSince(version)).toBe(Number.POSITIVE_INFINITY);
      await store.remove(third);
      const later = await store.listVersion();
      await store.remove(fourth);
      await create('A');
      expect(await firstRemovedSince(version)).toBe(third);
      expect(await firstRemovedSince(later)).toBe(fourth);
      await store.remove(second);
      await store.remove(first);
      expect(await firstRemovedSince(version)).toBe(first);
      expect(await firstRemovedSince(await store.listVersion())).toBe(Number.POSITIVE_INFINITY);
    });

    test('3: a removal from another list is none of a filtered one', async () => {
      const [from, to] = [randomUUID(), randomUUID()];
      const listed = await create(from, to);
      const version = await store.listVersion();
      await store.remove((await create(from)).id);
      await store.remove((await create('A', to)).id);
      expect(await firstRemovedSince(version, { from, to })).toBe(Number.POSITIVE_INFINITY);
      expect(await firstRemovedSince(version, { from })).toBeGreaterThan(listed.id);
      await store.remove(listed.id);
      for (const filter of [{ from }, { to }, { from, to }, {}]) {
        expect(await firstRemovedSince(version, filter)).toBe(listed.id);
      }
      expect(await firstRemovedSince(version, { from: to })).toBe(Number.POSITIVE_INFINITY);
    });

    test('3: so many removals are remembered, and one more makes everything before them unknown', async () => {
      const created = await createInOrder(REMEMBERED_REMOVALS + 1, 'A');
      const version = await store.listVersion();
      const [first, ...others] = created.map(({ id }) => id) as [number, ...number[]];
      for (let at = 0; at < others.length; at += 1) await store.remove(others[at] as number);
      expect(await firstRemovedSince(version)).toBe(others[0]);
      await store.remove(first);
      expect(await firstRemovedSince(version)).toBe(0);
      expect(await firstRemovedSince((await store.listVersion()) - 1)).toBe(first);
    });

    test('3: removals at once are all remembered', async () => {
      const created = await createInOrder(40, 'A');
      const version = await store.listVersion();
      await Promise.all(created.map(({ id }) => store.remove(id)));
      expect(await firstRemovedSince(version)).toBe(created[0]?.id);
    });

    test('4: what a snapshot shows is the beginning of what the next one shows, while creates go on', async () => {
      const from = randomUUID();
      let shown: number[] = [];
      let grown = 0;
      await whileWriting(
        4,
        () => create(from),
        'the list to grow twenty times',
        async () => {
          const now = await idsFrom(from);
          expect(now.slice(0, shown.length)).toEqual(shown);
          if (now.length > shown.length) grown += 1;
          shown = now;
          return grown >= 20;
        },
      );
    });

    test('5: what happens while a snapshot is open does not show in it, and shows in the next', async () => {
      const from = randomUUID();
      const before = await createInOrder(10, from);
      const [first, , third] = before as [Transaction, Transaction, Transaction];
      const added = await withSnapshot({ from }, async (snapshot) => {
        const { version } = snapshot;
        await store.remove(first.id);
        await store.changeStatus(third.id, 'FLAGGED');
        const created = await create(from);
        expect(await allIds(snapshot)).toEqual(before.map(({ id }) => id));
        expect(await allRows(snapshot)).toEqual(before);
        expect(await snapshot.firstRemovedSince(version)).toBe(Number.POSITIVE_INFINITY);
        expect(snapshot.version).toBe(version);
        expect(await store.listVersion()).toBeGreaterThan(version);
        return created;
      });
      const after = await withSnapshot({ from }, (snapshot) => allRows(snapshot));
      const third2 = { ...third, status: 'FLAGGED', version: 2 };
      expect(after).toEqual([before[1], third2, ...before.slice(3), added]);
    });

    test('5: the same version always shows the same ids, while creates and removals go on', async () => {
      const idsAt = new Map<number, string>();
      const write = async () => {
        const { id } = await create('A');
        await create('A');
        await store.remove(id);
      };
      await whileWriting(3, write, 'twenty different versions', async () => {
        // Two of one moment, and of one version unless a commit falls between them.
        for (let look = 0; look < 2; look += 1) {
          const { version, ids } = await withSnapshot({}, async (snapshot) => {
            return { version: snapshot.version, ids: (await allIds(snapshot)).join() };
          });
          expect(idsAt.get(version) ?? ids).toBe(ids);
          idsAt.set(version, ids);
        }
        return idsAt.size >= 20;
      });
    });

    test('6: pages of ids and of rows follow each other without gap or repetition', async () => {
      const from = randomUUID();
      const created = await createInOrder(3 * PAGE, from);
      const ids = created.map(({ id }) => id);
      expect(await withSnapshot({ from }, (snapshot) => allIds(snapshot, PAGE))).toEqual(ids);
      expect(await withSnapshot({ from }, (snapshot) => allRows(snapshot, PAGE))).toEqual(created);
      expect(await withSnapshot({ from }, (snapshot) => snapshot.ids(ids[4] ?? 0, 2))).toEqual(ids.slice(5, 7));
      expect(await withSnapshot({ from }, (snapshot) => snapshot.rows(ids.at(-1) ?? 0, 2))).toEqual([]);
    });

    test('7: filters by sender, by receiver and by both; none selects everything', async () => {
      const [a, b] = [randomUUID(), randomUUID()];
      const ab = await create(a, b);
      const ba = await create(b, a);
      const ac = await create(a, 'C');
      const ids = (filter: Partial<TransactionFilter>) => withSnapshot(filter, (snapshot) => allIds(snapshot));
      expect(await ids({ from: a })).toEqual([ab.id, ac.id]);
      expect(await ids({ to: a })).toEqual([ba.id]);
      expect(await ids({ from: a, to: b })).toEqual([ab.id]);
      expect(await ids({ from: b, to: b })).toEqual([]);
      expect((await ids({})).slice(-3)).toEqual([ab.id, ba.id, ac.id]);
    });

    test('7: a filter does not take an account for another that looks like it', async () => {
      const base = randomUUID();
      const { id } = await create(`${base}-Caf\u00e9`);
      expect(await idsFrom(`${base}-Caf\u00e9`)).toEqual([id]);
      for (const other of ['-Cafe\u0301', '-caf\u00e9', '-Caf\u00e9 ', '-Cafe', '-Caf%', '-Caf_']) {
        expect(await idsFrom(base + other)).toEqual([]);
      }
    });
  });
}
