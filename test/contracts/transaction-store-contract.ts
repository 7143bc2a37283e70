import { describe, expect, test } from 'vitest';
import {
  FIRST_TRANSACTION_ID,
  LAST_TRANSACTION_ID,
  type NewTransaction,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionStatus,
} from '#idempay/transactions/transaction.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';

const UNKNOWN_ID = LAST_TRANSACTION_ID;

/**
 * What every TransactionStore guarantees of single transactions beyond its types (of lists:
 * `transaction-list-contract.ts`):
 *
 *  1. Ids begin at 100000000000001, have 15 digits, and are higher than every id before, also of rows that are gone.
 *  2. What was created is read back as it was sent: amounts exact at their limits, accounts byte by byte.
 *  3. A status changes from every status but the final ones to every status; each change raises the version by one.
 *  4. Setting the status that it has leaves the row alone, also when that status is final.
 *  5. `onlyFrom` is judged where the row is changed: of changes at once from one status exactly one happens.
 *  6. What does not exist is not found, whatever `onlyFrom` says.
 */
export function describeTransactionStoreContract(ports: ContractPorts, open: OpenPorts): void {
  describe('the transaction store contract', () => {
    const { transactions: store, clock } = ports;
    const FINAL: TransactionStatus[] = ['FAILED', 'CANCELLED'];

    function create(members: Partial<NewTransaction> = {}, of: ContractPorts['transactions'] = store) {
      return of.create({ fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING', ...members });
    }

    async function expectUnchanged(created: Transaction): Promise<void> {
      expect(await store.get(created.id)).toEqual(created);
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

    test('1: ids given at once are different, have 15 digits and are higher than all before', async () => {
      const { id: before } = await create();
      const created = await Promise.all(Array.from({ length: 200 }, () => create()));
      const ids = created.map(({ id }) => id);
      expect(new Set(ids).size).toBe(200);
      expect(Math.min(...ids)).toBeGreaterThan(before);
      for (const id of ids) expect(String(id)).toMatch(/^[0-9]{15}$/);
    });

    test('1, 6: no id is used again after a delete, not even the last one, and what was deleted is not found', async () => {
      const { id: last } = await create();
      expect(await store.remove(last)).toBe('removed');
      expect((await create()).id).toBeGreaterThan(last);
      expect(await store.get(last)).toBeUndefined();
      expect(await store.changeStatus(last, 'FLAGGED')).toEqual({ state: 'not found' });
      expect(await store.remove(last)).toBe('not found');
    });

    test('2: what create answers is what get reads, with version 1 and the time of its creation', async () => {
      const before = clock.now();
      const created = await create({ status: 'ON_HOLD' });
      await expectUnchanged(created);
      const sent = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'ON_HOLD' };
      expect(created).toMatchObject({ ...sent, version: 1 });
      expect(created.createdAt).toBeGreaterThanOrEqual(Math.floor(before));
      expect(created.createdAt).toBeLessThanOrEqual(clock.now());
    });

    test.each(['0.0001', '0.1', '1', '100', '100.5', '99999999999.9999', '99999999999999.9', '99999999999999'])(
      '2: the amount %s is kept exactly',
      async (amount) => {
        const { id } = await create({ amount });
        expect((await store.get(id))?.amount).toBe(amount);
        expect(await store.changeStatus(id, 'FLAGGED')).toMatchObject({ state: 'done', transaction: { amount } });
      },
    );

    test.each([
      ['a space at the end', 'A '],
      ['a letter and its accent apart', 'e\u0301'],
      ['a letter with its accent', '\u00e9'],
      ['64 letters beyond 16 bits', '\u{1f4b3}'.repeat(64)],
      ['quotes and a backslash', `'"\\%_`],
    ])('2: an account with %s is kept as it was sent', async (_what, fromAccount) => {
      const { id } = await create({ fromAccount });
      expect((await store.get(id))?.fromAccount).toBe(fromAccount);
    });

    test('3: a change of status is answered and read with the new status and the next version', async () => {
      const created = await create();
      const transaction = { ...created, status: 'FLAGGED', version: 2 } as const;
      expect(await store.changeStatus(created.id, 'FLAGGED')).toEqual({ state: 'done', transaction });
      await expectUnchanged(transaction);
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
          if (to === from || FINAL.includes(from)) await expectUnchanged(created);
        }
      },
    );

    test('5: of thirty changes at once from one status exactly one happens', async () => {
      const { id } = await create();
      const change = () => store.changeStatus(id, 'FLAGGED', ['PENDING']);
      const changes = await Promise.all(Array.from({ length: 30 }, change));
      expect(changes.filter(({ state }) => state === 'done')).toHaveLength(1);
      expect(changes.filter(({ state }) => state === 'precondition failed')).toHaveLength(29);
      expect(await store.get(id)).toMatchObject({ status: 'FLAGGED', version: 2 });
    });

    test('5: a change or removal from another status than the permitted ones leaves the row alone', async () => {
      const created = await create();
      for (const onlyFrom of [['COMPLETED'], []] as const) {
        expect(await store.changeStatus(created.id, 'FLAGGED', onlyFrom)).toEqual({ state: 'precondition failed' });
        expect(await store.remove(created.id, onlyFrom)).toBe('precondition failed');
      }
      await expectUnchanged(created);
    });

    test('5: a precondition is judged before the status is: also for the status that it has, and for final ones', async () => {
      const [pending, failed] = [await create(), await create({ status: 'FAILED' })];
      expect(await store.changeStatus(pending.id, 'PENDING', ['FLAGGED'])).toEqual({ state: 'precondition failed' });
      expect(await store.changeStatus(failed.id, 'PENDING', ['PENDING'])).toEqual({ state: 'precondition failed' });
    });

    test('5: a change and a removal from one of several permitted statuses happen', async () => {
      const { id } = await create();
      expect(await store.changeStatus(id, 'ON_HOLD', ['FLAGGED', 'PENDING'])).toMatchObject({ state: 'done' });
      expect(await store.remove(id, ['FLAGGED', 'ON_HOLD'])).toBe('removed');
      expect(await store.get(id)).toBeUndefined();
    });

    test('5: of thirty removals at once exactly one removes', async () => {
      const { id } = await create();
      const removals = await Promise.all(Array.from({ length: 30 }, () => store.remove(id)));
      expect(removals.filter((removal) => removal === 'removed')).toHaveLength(1);
      expect(removals.filter((removal) => removal === 'not found')).toHaveLength(29);
    });

    test('6: an unknown id is not found, with and without a precondition', async () => {
      expect(await store.get(UNKNOWN_ID)).toBeUndefined();
      for (const onlyFrom of [undefined, [], ['PENDING'] as const]) {
        expect(await store.changeStatus(UNKNOWN_ID, 'FLAGGED', onlyFrom)).toEqual({ state: 'not found' });
        expect(await store.remove(UNKNOWN_ID, onlyFrom)).toBe('not found');
      }
    });
  });
}
