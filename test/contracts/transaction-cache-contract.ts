import { expect, test } from 'vitest';
import type { FillToken } from '#idempay/transactions/ports/transaction-cache.js';
import { FIRST_TRANSACTION_ID, type Transaction } from '#idempay/transactions/transaction.js';
import { createTransactions } from '#idempay/transactions/transactions.js';
import { failingPort } from '../../testkit/protocol/failing-ports.js';
import { SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { LOST } from '../../testkit/protocol/payment-composition.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';

/**
 * Guarantees of every TransactionCache beyond its types. With the store (8): the client of a write whose answer was given up must ask
 * again, and reads of others before must not hide the row that it reads then.
 *  1. One of several misses at once gets the fill token, and a fill needs a token that is alive. 2. One that was given back is dead.
 *  3. A mark drops the entry and voids the token; while any mark stands there is no hit, no token and no fill.
 *  4. A refresh stores the newest version once no other mark stands. 5. An evict leaves no entry, nor does a refresh alongside it.
 *  6. An entry lives as long as it may, and not longer. 7. Ids know nothing of each other.
 */
export function transactionCacheContract({ transactionCache: cache, ...ports }: ContractPorts, open: OpenPorts): void {
  let nextId = FIRST_TRANSACTION_ID + 2_000_000;

  /** A transaction under an id that no other test uses. */
  function newTransaction(): Transaction {
    nextId += 1;
    const rest = { amount: '99999999999999.9', status: 'PENDING', version: 1, createdAt: 1_700_000 } as const;
    return { id: nextId, fromAccount: 'A', toAccount: 'B\u00e9"', ...rest };
  }

  const nextVersion = (transaction: Transaction): Transaction => ({
    ...transaction,
    status: transaction.status === 'FLAGGED' ? 'ON_HOLD' : 'FLAGGED',
    version: transaction.version + 1,
  });

  async function missToken(id: number, of = cache): Promise<FillToken> {
    const seen = await of.lookUp(id);
    if (seen.state !== 'miss' || seen.token === undefined) throw new Error('this look-up got no fill token');
    return seen.token;
  }

  async function givenEntry(of = cache): Promise<Transaction> {
    const transaction = newTransaction();
    const filled = await of.fill(transaction.id, await missToken(transaction.id, of), transaction);
    if (!filled) throw new Error('the fill was refused');
    return transaction;
  }

  /** Two marks on one entry, and the two versions that their writes make of it. */
  async function givenTwoWrites() {
    const older = nextVersion(await givenEntry());
    const [one, other] = [await cache.mark(older.id), await cache.mark(older.id)];
    return { id: older.id, older, newer: nextVersion(older), one, other };
  }

  const NO_TOKEN = { state: 'miss', token: undefined };
  const BYPASS = { state: 'bypass' };

  async function expectHits(transaction: Transaction): Promise<void> {
    for (let time = 0; time < 2; time += 1)
      expect(await cache.lookUp(transaction.id)).toEqual({ state: 'hit', transaction });
  }

  test('1: of fifty misses at once one gets the token', async () => {
    const { id } = newTransaction();
    const seen = await Promise.all(Array.from({ length: 50 }, () => cache.lookUp(id)));
    expect(seen.filter((look) => look.state === 'miss')).toHaveLength(50);
    expect(seen.filter((look) => look.state === 'miss' && look.token !== undefined)).toHaveLength(1);
  });

  test('1: a token that was never given fills nothing; the real one fills once, and the entry is hit as it is', async () => {
    const transaction = newTransaction();
    const { id } = transaction;
    const token = await missToken(id);
    expect(await cache.fill(id, `${token}0`, transaction)).toBe(false);
    expect(await cache.lookUp(id)).toEqual(NO_TOKEN);
    expect(await cache.fill(id, token, transaction)).toBe(true);
    expect(await cache.fill(id, token, nextVersion(transaction))).toBe(false);
    await expectHits(transaction);
  });

  test('2: a token that was given back is dead, and giving it back again leaves the next one alive', async () => {
    const transaction = newTransaction();
    const { id } = transaction;
    const dead = await missToken(id);
    await cache.forgo(id, dead);
    expect(await cache.fill(id, dead, transaction)).toBe(false);
    const living = await missToken(id);
    await cache.forgo(id, dead);
    expect(await cache.lookUp(id)).toEqual(NO_TOKEN);
    expect(await cache.fill(id, living, transaction)).toBe(true);
  });

  test('3: a mark voids the token, while it stands and after it was lifted', async () => {
    const transaction = newTransaction();
    const token = await missToken(transaction.id);
    const mark = await cache.mark(transaction.id);
    expect(await cache.fill(transaction.id, token, transaction)).toBe(false);
    await cache.evict(mark);
    expect(await cache.fill(transaction.id, token, transaction)).toBe(false);
    await missToken(transaction.id);
  });

  test('3, 7: marks drop the entry of their id alone, and while one stands there is neither hit nor token', async () => {
    const [other, { id, one, older }] = [await givenEntry(), await givenTwoWrites()];
    for (let time = 0; time < 2; time += 1) expect(await cache.lookUp(id)).toEqual(BYPASS);
    await expectHits(other);
    await cache.refresh(one, older);
    expect(await cache.lookUp(id)).toEqual(BYPASS);
  });

  test('4: a refresh stores the written version and lifts the mark, whether it was cached before or not', async () => {
    for (const written of [nextVersion(await givenEntry()), newTransaction()]) {
      await cache.refresh(await cache.mark(written.id), written);
      await expectHits(written);
    }
  });

  test('4: of two marks the newer version is stored, whichever is refreshed last', async () => {
    const inOrder = await givenTwoWrites();
    await cache.refresh(inOrder.one, inOrder.older);
    await cache.refresh(inOrder.other, inOrder.newer);
    await expectHits(inOrder.newer);
    const reversed = await givenTwoWrites();
    await cache.refresh(reversed.other, reversed.newer);
    await cache.refresh(reversed.one, reversed.older);
    await expectHits(reversed.newer);
  });

  test('5: an evict leaves no entry, alone, before and after the refresh of another mark', async () => {
    const { id } = await givenEntry();
    await cache.evict(await cache.mark(id));
    await missToken(id);
    const before = await givenTwoWrites();
    await cache.evict(before.other);
    await cache.refresh(before.one, before.older);
    await missToken(before.id);
    const after = await givenTwoWrites();
    await cache.refresh(after.one, after.older);
    await cache.evict(after.other);
    await missToken(after.id);
  });

  test('6: an entry is a miss once its life is over, however it was stored', async () => {
    const { transactionCache: short, close } = await open({ transactionCacheTtlMs: SHORT_MS });
    try {
      const [filled, refreshed] = [await givenEntry(short), newTransaction()];
      await short.refresh(await short.mark(refreshed.id), refreshed);
      await ports.pass(SHORT_MS);
      for (const { id } of [filled, refreshed]) await missToken(id, short);
    } finally {
      await close();
    }
  });

  test.each([
    ['changeStatus', 'FLAGGED'],
    ['remove', undefined],
  ] as const)(
    '8: %s is seen by every read after its commit, although its answer was given up',
    async (write, expected) => {
      const store = failingPort(ports.transactions);
      const transactions = createTransactions(store.port, cache);
      const { id } = await ports.transactions.create(newTransaction());
      let commit: () => Promise<unknown> = async () => {};
      store.interruptNext(write, async (proceed) => {
        commit = proceed;
        throw LOST;
      });
      const asked = write === 'remove' ? transactions.remove(id) : transactions.changeStatus(id, 'FLAGGED');
      await expect(asked).rejects.toBe(LOST);
      expect((await transactions.get(id)).transaction?.status).toBe('PENDING');
      await commit();
      expect((await transactions.get(id)).transaction?.status).toBe(expected);
    },
  );
}
