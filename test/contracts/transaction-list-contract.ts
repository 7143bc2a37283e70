import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { LONG_LIST, type NewTransaction } from '#idempay/transactions/transaction.js';
import { createTransactions, type TransactionList } from '#idempay/transactions/transactions.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * Guarantees of transactions over every store while long lists are read from all snapshots that these may have:
 *  1. A precondition of a create is judged at once, met or not. 2. A client that has the newest tag is answered at once, although another
 *     one waits for its turn at the same list.
 */
export function transactionListContract({ transactions: store, transactionCache }: ContractPorts): void {
  async function givenLongList() {
    const from = randomUUID();
    const row: NewTransaction = { fromAccount: from, toAccount: 'B', amount: '1', status: 'PENDING' };
    await store.createAll(Array(LONG_LIST).fill(row));
    return { row, filter: { from, to: '' }, transactions: createTransactions(store, transactionCache) };
  }

  async function whileLongListsAreRead(work: () => Promise<void>): Promise<void> {
    const long = [];
    try {
      for (;;) {
        const snapshot = await store.openSnapshot({ from: '', to: '' });
        if (snapshot.lengthen() === undefined) {
          long.push(snapshot);
          continue;
        }
        snapshot.close();
        break;
      }
      await work();
    } finally {
      for (const snapshot of long) snapshot.close();
    }
  }

  /**
   * Bug: a create whose precondition was not met waited for ten seconds while others read long lists, and got 503 in place of 412. Cause: the
   * list of the condition was opened like one that is sent. Fix: only its tag is asked for.
   */
  test('1: a create is refused because of its precondition, or made, although no long list can be read', async () => {
    const { row, transactions } = await givenLongList();
    await whileLongListsAreRead(async () => {
      const creates = [false, true].map((isMet) => transactions.create([row], { condition: () => isMet }));
      expect(await Promise.all(creates)).toMatchObject([{ state: 'precondition failed' }, { state: 'created' }]);
    });
  });

  /**
   * Bug: a client that had the newest tag waited while another one waited for its turn at the same list, and got its 503. Cause: a later
   * request waited for the whole answer of the first one. Fix: it waits for the tag, which is known before that turn.
   */
  test.each([
    { what: 'has no tag', condition: undefined },
    { what: 'has an old tag', condition: () => false },
  ])('2: a client that has the newest tag does not wait for the turn of another one that $what', async (waiting) => {
    const { row, filter, transactions } = await givenLongList();
    // From here on the list is known to be long.
    await transactions.list(filter, () => true);
    await store.create(row);
    const others: Promise<TransactionList>[] = [];
    await whileLongListsAreRead(async () => {
      const other = Promise.resolve(transactions.list(filter, waiting.condition));
      other.catch(() => {});
      others.push(other);
      expect(await transactions.list(filter, () => true)).toMatchObject({ state: 'not modified' });
    });
    for (const list of await Promise.all(others)) {
      expect(list.state).toBe('list');
      if (list.state === 'list') list.pages.close();
    }
  });
}
