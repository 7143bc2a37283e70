import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { REMEMBERED_REMOVALS } from '#idempay/deployments/transaction-removals.js';
import type { Transaction, TransactionFilter } from '#idempay/transactions/transaction.js';
import type { TransactionSnapshot } from '#idempay/transactions/transaction-store.js';
import { alongside } from '../../testkit/concurrency.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/** Small, so that a short list has several pages. */
const PAGE = 7;
/** Where pages are not the point: a list that grows meanwhile must not outrun its reader. */
const LARGE_PAGE = 5_000;
const PATIENTLY = { timeout: 20_000, interval: 20 };
const NONE = Number.POSITIVE_INFINITY;

type Filter = Partial<TransactionFilter>;

/** What every TransactionStore guarantees of its lists beyond its types. */
export function transactionListContract({ transactions: store }: ContractPorts): void {
  function create(fromAccount = 'A', toAccount = 'B'): Promise<Transaction> {
    return store.create({ fromAccount, toAccount, amount: '1', status: 'PENDING' });
  }

  /** The first four are all that a test takes apart. */
  async function createInOrder(count: number, fromAccount?: string) {
    const created = await Promise.all(Array.from({ length: count }, () => create(fromAccount)));
    return created.sort((a, b) => a.id - b.id) as [Transaction, Transaction, Transaction, Transaction];
  }

  async function withSnapshot<T>(filter: Filter, read: (snapshot: TransactionSnapshot) => Promise<T>): Promise<T> {
    const snapshot = await store.openSnapshot({ from: '', to: '', ...filter });
    return read(snapshot).finally(() => snapshot.close());
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

  const idsOf = (filter: Filter) => withSnapshot(filter, (snapshot) => allIds(snapshot));
  const snapshotVersion = () => withSnapshot({}, async ({ version }) => version);
  const firstRemovedSince = (version: number, filter: Filter = {}) =>
    withSnapshot(filter, (snapshot) => snapshot.firstRemovedSince(version));

  test('1, 2: an acknowledged create moves the version, and so does an acknowledged removal', async () => {
    const atFirst = await store.listVersion();
    const { id } = await create();
    const created = await store.listVersion();
    expect(created).toBeGreaterThan(atFirst);
    expect(await snapshotVersion()).toBe(created);
    await store.remove(id);
    expect(await store.listVersion()).toBeGreaterThan(created);
  });

  test('1: a change of status, and whatever was not found or not permitted, leave the version alone', async () => {
    const { id } = await create();
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
      await create();
      return (await store.listVersion()) - before;
    });
    for (const moved of await Promise.all(moves)) expect(moved).toBeGreaterThan(0);
  });

  test('3: the first removed id is the lowest one since a version, whatever is created meanwhile', async () => {
    const [first, second, third, fourth] = await createInOrder(5);
    const version = await store.listVersion();
    expect(await firstRemovedSince(version)).toBe(NONE);
    await store.remove(third.id);
    const later = await store.listVersion();
    await store.remove(fourth.id);
    await create();
    expect(await firstRemovedSince(version)).toBe(third.id);
    expect(await firstRemovedSince(later)).toBe(fourth.id);
    await store.remove(second.id);
    await store.remove(first.id);
    expect(await firstRemovedSince(version)).toBe(first.id);
    expect(await firstRemovedSince(await store.listVersion())).toBe(NONE);
  });

  test('3: a removal from another list is none of a filtered one', async () => {
    const [from, to] = [randomUUID(), randomUUID()];
    const listed = await create(from, to);
    const version = await store.listVersion();
    await store.remove((await create(from)).id);
    await store.remove((await create('A', to)).id);
    expect(await firstRemovedSince(version, { from, to })).toBe(NONE);
    expect(await firstRemovedSince(version, { from })).toBeGreaterThan(listed.id);
    await store.remove(listed.id);
    for (const filter of [{ from }, { to }, { from, to }, {}])
      expect(await firstRemovedSince(version, filter)).toBe(listed.id);
    expect(await firstRemovedSince(version, { from: to })).toBe(NONE);
  });

  test('3: so many removals are remembered, and one more makes everything before them unknown', async () => {
    const [first, ...others] = await createInOrder(REMEMBERED_REMOVALS + 1);
    const version = await store.listVersion();
    for (const { id } of others) await store.remove(id);
    expect(await firstRemovedSince(version)).toBe(others[0].id);
    await store.remove(first.id);
    expect(await firstRemovedSince(version)).toBe(0);
    expect(await firstRemovedSince((await store.listVersion()) - 1)).toBe(first.id);
  });

  test('3: removals at once are all remembered', async () => {
    const created = await createInOrder(40);
    const version = await store.listVersion();
    await Promise.all(created.map(({ id }) => store.remove(id)));
    expect(await firstRemovedSince(version)).toBe(created[0].id);
  });

  test('5: what happens while a snapshot is open does not show in it, and shows in the next', async () => {
    const from = randomUUID();
    const before = await createInOrder(10, from);
    const [first, , third] = before;
    const added = await withSnapshot({ from }, async (snapshot) => {
      const { version } = snapshot;
      await store.remove(first.id);
      await store.changeStatus(third.id, 'FLAGGED');
      const created = await create(from);
      expect(await allIds(snapshot)).toEqual(before.map(({ id }) => id));
      expect(await allRows(snapshot)).toEqual(before);
      expect(await snapshot.firstRemovedSince(version)).toBe(NONE);
      expect(snapshot.version).toBe(version);
      expect(await store.listVersion()).toBeGreaterThan(version);
      return created;
    });
    const after = await withSnapshot({ from }, (snapshot) => allRows(snapshot));
    const flagged = { ...third, status: 'FLAGGED', version: 2 };
    expect(after).toEqual([before[1], flagged, ...before.slice(3), added]);
  });

  test('2, 4, 5: versions never go back, lists only grow, and one version shows the same ids, while writes go on', async () => {
    const from = randomUUID();
    const idsAt = new Map<number, string>();
    let grown: number[] = [];
    async function write(): Promise<void> {
      await create(from);
      await store.remove((await create()).id);
    }
    async function look(): Promise<number> {
      const { version, ids } = await withSnapshot({}, async (snapshot) => {
        return { version: snapshot.version, ids: (await allIds(snapshot)).join() };
      });
      expect(await store.listVersion()).toBeGreaterThanOrEqual(version);
      expect(idsAt.get(version) ?? ids).toBe(ids);
      idsAt.set(version, ids);
      const now = await idsOf({ from });
      expect(now.slice(0, grown.length)).toEqual(grown);
      grown = now;
      return Math.min(idsAt.size, grown.length);
    }
    // Twice in a row, of one version unless a commit falls between them.
    const twice = async () => Math.min(await look(), await look());
    await alongside(4, write, () => expect.poll(twice, PATIENTLY).toBeGreaterThanOrEqual(20));
  });

  test('6: pages of ids and of rows follow each other without gap or repetition', async () => {
    const from = randomUUID();
    const created = await createInOrder(3 * PAGE, from);
    const ids = created.map(({ id }) => id);
    await withSnapshot({ from }, async (snapshot) => {
      expect(await allIds(snapshot, PAGE)).toEqual(ids);
      expect(await allRows(snapshot, PAGE)).toEqual(created);
      expect(await snapshot.ids(ids[4] ?? 0, 2)).toEqual(ids.slice(5, 7));
      expect(await snapshot.rows(ids.at(-1) ?? 0, 2)).toEqual([]);
    });
  });

  test('7: filters by sender, by receiver and by both; none selects everything', async () => {
    const [a, b] = [randomUUID(), randomUUID()];
    const [ab, ba, ac] = [await create(a, b), await create(b, a), await create(a, 'C')];
    expect(await idsOf({ from: a })).toEqual([ab.id, ac.id]);
    expect(await idsOf({ to: a })).toEqual([ba.id]);
    expect(await idsOf({ from: a, to: b })).toEqual([ab.id]);
    expect(await idsOf({ from: b, to: b })).toEqual([]);
    expect((await idsOf({})).slice(-3)).toEqual([ab.id, ba.id, ac.id]);
  });

  test('7: a filter does not take an account for another that looks like it', async () => {
    const base = randomUUID();
    const { id } = await create(`${base}-Caf\u00e9`);
    expect(await idsOf({ from: `${base}-Caf\u00e9` })).toEqual([id]);
    for (const other of ['-Cafe\u0301', '-caf\u00e9', '-Caf\u00e9 ', '-Cafe', '-Caf%', '-Caf_'])
      expect(await idsOf({ from: base + other })).toEqual([]);
  });
}
