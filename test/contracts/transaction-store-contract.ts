import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { REMEMBERED_REMOVALS } from '#idempay/stores/shared/transaction-rows.js';
import type { TransactionSnapshot } from '#idempay/transactions/ports/transaction-store.js';
import {
  FIRST_TRANSACTION_ID,
  LAST_TRANSACTION_ID,
  type NewTransaction,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionFilter,
  type TransactionStatus,
} from '#idempay/transactions/transaction.js';
import { alongside } from '../../testkit/concurrency.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';

const FINAL: TransactionStatus[] = ['FAILED', 'CANCELLED'];

/** Small, so that a short list has several pages. */
const PAGE = 7;
/** For tests that are not about pages: a list that grows meanwhile must not outrun its reader. */
const LARGE_PAGE = 5_000;
const NONE = Number.POSITIVE_INFINITY;

type Filter = Partial<TransactionFilter>;

/**
 * Guarantees of every TransactionStore beyond its types:
 *  1. Ids begin at 100000000000001 and rise. 2. Created rows are read back exactly. 3. Every status but the final ones may
 *     change, with the next version. 4. To the same status is no change. 5. `onlyFrom` is judged by the statement that changes the row.
 *  6. A row that does not exist is not found, whatever `onlyFrom` says.
 *  7. Creates and removals move `listVersion`, and nothing else does. 8. It is as new as whatever was acknowledged or shown.
 *  9. `firstRemovedSince` is the lowest id that was removed after a version; 0 if that is not remembered.
 * 10. Ids rise in commit order. 11. A snapshot is of one moment. 12. Its pages put together are the whole.
 * 13. A filter selects the accounts that are equal code point by code point.
 */
export function transactionStoreContract({ transactions: store, clock }: ContractPorts, open: OpenPorts): void {
  function create(members: Partial<NewTransaction> = {}, of = store) {
    return of.create({ fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING', ...members });
  }

  async function expectStored(transaction: Transaction): Promise<void> {
    expect(await store.get(transaction.id)).toEqual(transaction);
  }

  test('1: the first id of an empty store is 100000000000001', async () => {
    const fresh = await open();
    try {
      const { id } = await create({}, fresh.transactions);
      expect([id, FIRST_TRANSACTION_ID]).toEqual([100_000_000_000_001, 100_000_000_000_001]);
    } finally {
      await fresh.close();
    }
  });

  test('1: ids given at once are different, have 15 digits and are higher than all before, also than a removed one', async () => {
    const { id: before } = await create();
    expect(await store.remove(before)).toBe('removed');
    const created = await Promise.all(Array.from({ length: 200 }, () => create()));
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(200);
    expect(Math.min(...ids)).toBeGreaterThan(before);
    for (const id of ids) expect(String(id)).toMatch(/^[0-9]{15}$/);
  });

  test('2: what create answers is what get reads, with version 1 and the time of its creation', async () => {
    const before = clock.now();
    const created = await create({ status: 'ON_HOLD' });
    await expectStored(created);
    const sent = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'ON_HOLD' };
    expect(created).toMatchObject({ ...sent, version: 1 });
    expect(created.createdAt).toBeGreaterThanOrEqual(Math.floor(before));
    expect(created.createdAt).toBeLessThanOrEqual(clock.now() + clockSetBackMs());
  });

  test.each<Partial<NewTransaction>>([
    ...['0.0001', '0.1', '1', '100', '99999999999.9999', '99999999999999'].map((amount) => ({ amount })),
    ...['A ', 'e\u0301', '\u00e9', '\u{1f4b3}'.repeat(64), `'"\\%_`].map((fromAccount) => ({ fromAccount })),
  ])('2, 3: %j is kept exactly, through a change of status with the next version', async (members) => {
    const created = await create(members);
    expect(created).toMatchObject(members);
    await expectStored(created);
    const transaction = { ...created, status: 'FLAGGED', version: 2 } as const;
    expect(await store.changeStatus(created.id, 'FLAGGED')).toEqual({ state: 'done', transaction });
    await expectStored(transaction);
  });

  test.each(TRANSACTION_STATUSES)(
    '3, 4: after %s any status may follow unless it is final; the same one again leaves the row alone',
    async (from) => {
      for (const to of TRANSACTION_STATUSES) {
        const created = await create({ status: from });
        const changed = await store.changeStatus(created.id, to);
        if (to === from) expect(changed).toEqual({ state: 'done', transaction: created });
        else if (FINAL.includes(from)) expect(changed).toEqual({ state: 'final', status: from });
        else expect(changed).toMatchObject({ state: 'done', transaction: { status: to, version: 2 } });
        if (to === from || FINAL.includes(from)) await expectStored(created);
      }
    },
  );

  test('5: of thirty changes at once from one status exactly one happens, and so of thirty removals', async () => {
    const { id } = await create();
    const thirty = <T>(ask: () => Promise<T>) => Promise.all(Array.from({ length: 30 }, ask));
    const changes = await thirty(() => store.changeStatus(id, 'FLAGGED', ['PENDING']));
    expect(changes.map(({ state }) => state).sort()).toEqual(['done', ...Array(29).fill('precondition failed')]);
    expect(await store.get(id)).toMatchObject({ status: 'FLAGGED', version: 2 });
    const removals = await thirty(() => store.remove(id));
    expect(removals.sort()).toEqual([...Array(29).fill('not found'), 'removed']);
  });

  test('5: only a change or removal from one of the permitted statuses happens', async () => {
    const [pending, failed] = [await create(), await create({ status: 'FAILED' })];
    const refused = { state: 'precondition failed' };
    for (const onlyFrom of [['COMPLETED'], []] as const) {
      expect(await store.changeStatus(pending.id, 'FLAGGED', onlyFrom)).toEqual(refused);
      expect(await store.remove(pending.id, onlyFrom)).toBe(refused.state);
    }
    // The precondition is judged before the status is: also for the status that it has, and for final ones.
    expect(await store.changeStatus(pending.id, 'PENDING', ['FLAGGED'])).toEqual(refused);
    expect(await store.changeStatus(failed.id, 'PENDING', ['PENDING'])).toEqual(refused);
    for (const transaction of [pending, failed]) await expectStored(transaction);
    expect(await store.changeStatus(pending.id, 'ON_HOLD', ['FLAGGED', 'PENDING'])).toMatchObject({ state: 'done' });
    expect(await store.remove(pending.id, ['FLAGGED', 'ON_HOLD'])).toBe('removed');
  });

  test('6: an unknown id and a removed one are not found, with and without a precondition', async () => {
    const { id: removed } = await create();
    await store.remove(removed);
    for (const id of [LAST_TRANSACTION_ID, removed]) {
      expect(await store.get(id)).toBeUndefined();
      for (const onlyFrom of [undefined, [], ['PENDING'] as const]) {
        expect(await store.changeStatus(id, 'FLAGGED', onlyFrom)).toEqual({ state: 'not found' });
        expect(await store.remove(id, onlyFrom)).toBe('not found');
      }
    }
  });

  /** The first four are all that a test takes apart. */
  async function createInOrder(count: number, fromAccount = 'A') {
    const created = await Promise.all(Array.from({ length: count }, () => create({ fromAccount })));
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

  test('7, 8: an acknowledged create moves the version, and so does an acknowledged removal', async () => {
    const atFirst = await store.listVersion();
    const { id } = await create();
    const created = await store.listVersion();
    expect(created).toBeGreaterThan(atFirst);
    expect(await snapshotVersion()).toBe(created);
    await store.remove(id);
    expect(await store.listVersion()).toBeGreaterThan(created);
  });

  /**
   * Bug: a client that had been shown a removal or a create was told that the list had not changed. Cause: readers of the file see a commit
   * before the answer of the writer, from which the version was known. Fix: the version is read while a change is under way.
   */
  test('8: a create or a removal that a read shows has moved the version, also before it is acknowledged', async () => {
    const search = { from: randomUUID(), to: '', status: undefined, before: undefined, limit: 1 };
    const newest = async () => (await store.newest(search, 1)).transactions[0]?.id;
    async function expectMoved<T>(change: () => Promise<T>, isShown: () => Promise<boolean>): Promise<T> {
      const before = await store.listVersion();
      const changing = change();
      while (!(await isShown())) await nextTurn();
      expect(await store.listVersion()).toBeGreaterThan(before);
      return changing;
    }
    for (let round = 0; round < 50; round += 1) {
      const last = await newest();
      const creating = () => create({ fromAccount: search.from });
      const { id } = await expectMoved(creating, async () => (await newest()) !== last);
      const removing = () => store.remove(id);
      await expectMoved(removing, async () => (await store.get(id)) === undefined);
    }
  });

  test('7: a change of status, and whatever was not found or not permitted, leave the version alone', async () => {
    const { id } = await create();
    const version = await store.listVersion();
    await store.changeStatus(id, 'FLAGGED');
    await store.changeStatus(id, 'FLAGGED', ['PENDING']);
    await store.remove(id, ['PENDING']);
    await store.remove(id + 1_000_000);
    expect([await store.listVersion(), await snapshotVersion()]).toEqual([version, version]);
  });

  test('7: each of many creates at once moves the version from where it was when the create was sent', async () => {
    const moves = Array.from({ length: 20 }, async () => {
      const before = await store.listVersion();
      await create();
      return (await store.listVersion()) - before;
    });
    for (const moved of await Promise.all(moves)) expect(moved).toBeGreaterThan(0);
  });

  test('9: the first removed id is the lowest one since a version, whatever is created meanwhile', async () => {
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

  test('9: a removal from another list is none of a filtered one', async () => {
    const [from, to] = [randomUUID(), randomUUID()];
    const listed = await create({ fromAccount: from, toAccount: to });
    const version = await store.listVersion();
    await store.remove((await create({ fromAccount: from })).id);
    await store.remove((await create({ toAccount: to })).id);
    expect(await firstRemovedSince(version, { from, to })).toBe(NONE);
    expect(await firstRemovedSince(version, { from })).toBeGreaterThan(listed.id);
    await store.remove(listed.id);
    for (const filter of [{ from }, { to }, { from, to }, {}])
      expect(await firstRemovedSince(version, filter)).toBe(listed.id);
    expect(await firstRemovedSince(version, { from: to })).toBe(NONE);
  });

  test('9: a fixed number of removals is remembered, and one more makes everything before them unknown', async () => {
    const [first, ...others] = await createInOrder(REMEMBERED_REMOVALS + 1);
    const version = await store.listVersion();
    for (const { id } of others) await store.remove(id);
    expect(await firstRemovedSince(version)).toBe(others[0].id);
    await store.remove(first.id);
    expect(await firstRemovedSince(version)).toBe(0);
    expect(await firstRemovedSince((await store.listVersion()) - 1)).toBe(first.id);
  });

  test('9: removals at once are all remembered', async () => {
    const created = await createInOrder(40);
    const version = await store.listVersion();
    await Promise.all(created.map(({ id }) => store.remove(id)));
    expect(await firstRemovedSince(version)).toBe(created[0].id);
  });

  test('11: what happens while a snapshot is open does not show in it, and shows in the next', async () => {
    const from = randomUUID();
    const before = await createInOrder(10, from);
    const [first, , third] = before;
    const added = await withSnapshot({ from }, async (snapshot) => {
      const { version } = snapshot;
      await store.remove(first.id);
      await store.changeStatus(third.id, 'FLAGGED');
      const created = await create({ fromAccount: from });
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

  test('8, 10, 11: versions never go back, lists only grow, and one version shows the same ids, while writes go on', async () => {
    const from = randomUUID();
    const idsAt = new Map<number, string>();
    let grown: number[] = [];
    async function write(): Promise<void> {
      await create({ fromAccount: from });
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
    await alongside(4, write, () => expect.poll(twice).toBeGreaterThanOrEqual(20));
  });

  test('12: pages of ids and of rows follow each other without gap or repetition', async () => {
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

  test('13: filters by sender, by receiver and by both; none selects everything', async () => {
    const [a, b] = [randomUUID(), randomUUID()];
    const [ab, ba, aB] = [
      await create({ fromAccount: a, toAccount: b }),
      await create({ fromAccount: b, toAccount: a }),
      await create({ fromAccount: a }),
    ];
    expect(await idsOf({ from: a })).toEqual([ab.id, aB.id]);
    expect(await idsOf({ to: a })).toEqual([ba.id]);
    expect(await idsOf({ from: a, to: b })).toEqual([ab.id]);
    expect(await idsOf({ from: b, to: b })).toEqual([]);
    expect((await idsOf({})).slice(-3)).toEqual([ab.id, ba.id, aB.id]);
  });

  test('13: a filter does not take an account for another that looks like it', async () => {
    const base = randomUUID();
    const { id } = await create({ fromAccount: `${base}-Caf\u00e9` });
    expect(await idsOf({ from: `${base}-Caf\u00e9` })).toEqual([id]);
    for (const other of ['-Cafe\u0301', '-caf\u00e9', '-Caf\u00e9 ', '-Cafe', '-Caf%', '-Caf_'])
      expect(await idsOf({ from: base + other })).toEqual([]);
  });
}
