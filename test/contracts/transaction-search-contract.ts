import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  type NewTransaction,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionSearch,
} from '#idempay/transactions/transaction.js';
import { alongside } from '../../testkit/concurrency.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

const ALL_OF_A_TEST = 10_000;
const PAGE = 7;

/**
 * Guarantees of every TransactionStore on `newest` beyond its types:
 *  1. The newest first, of the accounts and with the status that are asked for, each as it is now. 2. The next page begins at the end of
 *     the one before: none is left out or shown twice. 3. No `next`: nothing is left. 4. At most `mostRead` rows are looked at for a page,
 *     and the next one goes on from there. 5. Rows that are created and removed meanwhile move nothing else.
 */
export function transactionSearchContract({ transactions: store }: ContractPorts): void {
  function create(members: Partial<NewTransaction>): Promise<Transaction> {
    return store.create({ fromAccount: 'A', toAccount: 'B', amount: '1', status: 'PENDING', ...members });
  }

  const newest = (search: Partial<TransactionSearch>, mostRead = ALL_OF_A_TEST) =>
    store.newest({ from: '', to: '', status: undefined, before: undefined, limit: PAGE, ...search }, mostRead);

  /** All pages, one after the other. */
  async function pagesOf(search: Partial<TransactionSearch>, mostRead?: number): Promise<Transaction[][]> {
    const pages: Transaction[][] = [];
    for (let before = search.before; ; ) {
      const { transactions, next } = await newest({ ...search, before }, mostRead);
      pages.push([...transactions]);
      if (next === undefined) return pages;
      if (before !== undefined) expect(next).toBeLessThan(before);
      before = next;
    }
  }

  /** From an account that is new, the newest first. */
  async function givenMany(count: number, members: (index: number) => Partial<NewTransaction> = () => ({})) {
    const from = randomUUID();
    const rows = Array.from({ length: count }, (_, index) => create({ fromAccount: from, ...members(index) }));
    const transactions = (await Promise.all(rows)).sort((one, other) => other.id - one.id);
    return { from, transactions };
  }

  test('1: finds by sender, by receiver, by both, by none, and by status, the newest first', async () => {
    const [a, b] = [randomUUID(), randomUUID()];
    const [ab, ba, aB] = [
      await create({ fromAccount: a, toAccount: b }),
      await create({ fromAccount: b, toAccount: a, status: 'ON_HOLD' }),
      await create({ fromAccount: a, status: 'FLAGGED' }),
    ];
    const searches: [Partial<TransactionSearch>, Transaction[]][] = [
      [{ from: a }, [aB, ab]],
      [{ to: a }, [ba]],
      [{ from: a, to: b }, [ab]],
      [{ from: b, to: b }, []],
      [{ from: a, status: 'FLAGGED' }, [aB]],
      [{ to: b, status: 'FLAGGED' }, []],
      [{ from: b, to: a, status: 'ON_HOLD' }, [ba]],
      [{ to: a, status: 'ON_HOLD' }, [ba]],
    ];
    for (const [search, found] of searches) {
      expect(await newest(search)).toEqual({ transactions: found, next: undefined });
    }
    expect((await newest({ limit: 3 })).transactions).toEqual([aB, ba, ab]);
    expect((await newest({ limit: 1, status: 'ON_HOLD' })).transactions).toEqual([ba]);
    expect((await newest({ limit: 1, before: ba.id })).transactions).toEqual([ab]);
  });

  test('1: shows the status that was acknowledged last, and finds by it', async () => {
    const { from, transactions } = await givenMany(3);
    const [newer, changed, older] = transactions as [Transaction, Transaction, Transaction];
    await store.changeStatus(changed.id, 'FLAGGED');
    const flagged: Transaction = { ...changed, status: 'FLAGGED', version: 2 };
    expect((await newest({ from })).transactions).toEqual([newer, flagged, older]);
    expect((await newest({ from, status: 'FLAGGED' })).transactions).toEqual([flagged]);
    expect((await newest({ from, status: 'PENDING' })).transactions).toEqual([newer, older]);
  });

  test.each([PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])(
    '2, 3: pages of %i transactions are full but the last, and the last has no next one',
    async (count) => {
      const { from, transactions } = await givenMany(count);
      const pages = await pagesOf({ from });
      expect(pages.flat()).toEqual(transactions);
      expect(pages.map(({ length }) => length)).toEqual(
        Array.from({ length: Math.ceil(count / PAGE) }, (_, page) => Math.min(PAGE, count - page * PAGE)),
      );
    },
  );

  test('2, 4: with a rare status pages are short or empty, and together they are all', async () => {
    const { from, transactions } = await givenMany(60, (index) => (index % 20 === 0 ? { status: 'BLOCKED' } : {}));
    const blocked = transactions.filter(({ status }) => status === 'BLOCKED');
    const pages = await pagesOf({ from, status: 'BLOCKED' }, 10);
    expect(pages.flat()).toEqual(blocked);
    expect(pages.length).toBeGreaterThanOrEqual(6);
    expect(pages.length).toBeLessThanOrEqual(7);
    for (const status of TRANSACTION_STATUSES) {
      const found = (await pagesOf({ from, status }, 10)).flat();
      expect(found).toEqual(transactions.filter((transaction) => transaction.status === status));
    }
  });

  test('4: no page looks at more rows than it may', async () => {
    const { from, transactions } = await givenMany(20, (index) => (index === 0 ? { status: 'BLOCKED' } : {}));
    const [blocked] = transactions.filter(({ status }) => status === 'BLOCKED');
    const rowsBefore = transactions.findIndex(({ id }) => id === blocked?.id);
    const page = await newest({ from, status: 'BLOCKED' }, rowsBefore);
    expect(page.transactions).toEqual([]);
    if (rowsBefore > 0) expect(page.next).toBe(transactions[rowsBefore - 1]?.id);
    expect((await newest({ from, status: 'BLOCKED' }, rowsBefore + 1)).transactions).toEqual([blocked]);
  });

  test('2: a full page of a status ends where the next one begins', async () => {
    const { from, transactions } = await givenMany(3 * PAGE, (index) => (index % 2 === 0 ? { status: 'FLAGGED' } : {}));
    const flagged = transactions.filter(({ status }) => status === 'FLAGGED');
    const pages = await pagesOf({ from, status: 'FLAGGED' });
    expect(pages.flat()).toEqual(flagged);
    expect(pages[0]).toHaveLength(PAGE);
  });

  test('5: what stays is found once while others are created and removed', async () => {
    const { from, transactions } = await givenMany(40, (index) => (index % 3 === 0 ? { status: 'FLAGGED' } : {}));
    const staying = transactions.filter(({ status }) => status === 'FLAGGED').map(({ id }) => id);
    const passing = transactions.filter(({ status }) => status === 'PENDING').map(({ id }) => id);
    async function write(): Promise<void> {
      await create({ fromAccount: from, status: 'ON_HOLD' });
      const id = passing.pop();
      if (id !== undefined) await store.remove(id);
    }
    let looks = 0;
    async function look(): Promise<number> {
      const found = (await pagesOf({ from, status: 'FLAGGED', limit: 3 }, 5)).flat();
      expect(found.map(({ id }) => id)).toEqual(staying);
      looks += 1;
      return passing.length > 0 ? 0 : looks;
    }
    await alongside(2, write, () => expect.poll(look).toBeGreaterThan(0));
  });
}
