import { expect, test } from 'vitest';
import {
  FIRST_TRANSACTION_ID,
  LAST_TRANSACTION_ID,
  type NewTransaction,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionStatus,
} from '#idempay/transactions/transaction.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';

const FINAL: TransactionStatus[] = ['FAILED', 'CANCELLED'];

/** What every TransactionStore guarantees of single transactions beyond its types. */
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
    expect(created.createdAt).toBeLessThanOrEqual(clock.now());
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
}
