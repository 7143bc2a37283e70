import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIRST_TRANSACTION_ID, type Transaction } from '#idempay/transactions/transaction.js';
import type { FillToken, TransactionCache } from '#idempay/transactions/transaction-cache.js';
import { SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * What every TransactionCache guarantees beyond its types:
 *
 *  1. A miss gives at most one fill token at a time per id, and a fill stores only with a token that is still alive.
 *  2. A token that was given back is dead, and the next miss gets another.
 *  3. A mark drops the entry and voids the token; while any mark stands there is no hit, no token and no fill.
 *  4. A refresh stores the written version once no other mark stands; the newest of several is what is stored.
 *  5. An evict leaves no entry, and neither does a refresh beside it: of two writes one of which is uncertain, none is known.
 *  6. An entry lives as long as the cache's time to live, and not longer.
 *  7. Ids know nothing of each other.
 */
export function describeTransactionCacheContract(name: string, open: OpenPorts): void {
  describe(`the transaction cache contract (${name})`, () => {
    let ports: Ports;
    let cache: TransactionCache;
    let nextId = FIRST_TRANSACTION_ID;

    beforeAll(async () => {
      ports = await open();
      cache = ports.transactionCache;
    });
    afterAll(() => ports.close());

    /** A transaction under an id that no other test uses. */
    function newTransaction(): Transaction {
      nextId += 1;
      const accounts = { fromAccount: 'A', toAccount: 'B\u00e9"' };
      return {
        id: nextId,
        ...accounts,
        amount: '99999999999999.9',
        status: 'PENDING',
        version: 1,
        createdAt: 1_700_000,
      };
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

    async function givenEntry(transaction = newTransaction(), of = cache): Promise<Transaction> {
      const filled = await of.fill(transaction.id, await missToken(transaction.id, of), transaction);
      if (!filled) throw new Error('the fill was refused');
      return transaction;
    }

    const NO_TOKEN = { state: 'miss', token: undefined } as const;
    const BYPASS = { state: 'bypass' } as const;

    test('1: a filled entry is hit, again and again, exactly as it was filled in', async () => {
      const transaction = await givenEntry();
      expect(await cache.lookUp(transaction.id)).toEqual({ state: 'hit', transaction });
      expect(await cache.lookUp(transaction.id)).toEqual({ state: 'hit', transaction });
    });

    test('1: of fifty misses at once one gets the token', async () => {
      const { id } = newTransaction();
      const seen = await Promise.all(Array.from({ length: 50 }, () => cache.lookUp(id)));
      expect(seen.filter((look) => look.state === 'miss')).toHaveLength(50);
      expect(seen.filter((look) => look.state === 'miss' && look.token !== undefined)).toHaveLength(1);
    });

    test('1: a token that was never given fills nothing, and leaves the real one alive', async () => {
      const transaction = newTransaction();
      const token = await missToken(transaction.id);
      expect(await cache.fill(transaction.id, `${token}0`, transaction)).toBe(false);
      expect(await cache.lookUp(transaction.id)).toEqual(NO_TOKEN);
      expect(await cache.fill(transaction.id, token, transaction)).toBe(true);
    });

    test('1: a token fills once', async () => {
      const transaction = newTransaction();
      const token = await missToken(transaction.id);
      await cache.fill(transaction.id, token, transaction);
      expect(await cache.fill(transaction.id, token, nextVersion(transaction))).toBe(false);
      expect(await cache.lookUp(transaction.id)).toEqual({ state: 'hit', transaction });
    });

    test('2: a token that was given back fills nothing, and the next miss gets another', async () => {
      const transaction = newTransaction();
      const token = await missToken(transaction.id);
      await cache.forgo(transaction.id, token);
      expect(await cache.fill(transaction.id, token, transaction)).toBe(false);
      expect(await cache.fill(transaction.id, await missToken(transaction.id), transaction)).toBe(true);
    });

    test('2: giving back a token that is dead already leaves the living one alive', async () => {
      const transaction = newTransaction();
      const dead = await missToken(transaction.id);
      await cache.forgo(transaction.id, dead);
      const living = await missToken(transaction.id);
      await cache.forgo(transaction.id, dead);
      expect(await cache.lookUp(transaction.id)).toEqual(NO_TOKEN);
      expect(await cache.fill(transaction.id, living, transaction)).toBe(true);
    });

    test('3: a mark drops the entry, and while it stands there is neither hit nor token', async () => {
      const { id } = await givenEntry();
      await cache.mark(id);
      expect(await cache.lookUp(id)).toEqual(BYPASS);
      expect(await cache.lookUp(id)).toEqual(BYPASS);
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

    test('3: while the second of two marks stands, the first one lifted, there is neither hit nor token', async () => {
      const transaction = await givenEntry();
      const first = await cache.mark(transaction.id);
      await cache.mark(transaction.id);
      await cache.refresh(first, nextVersion(transaction));
      expect(await cache.lookUp(transaction.id)).toEqual(BYPASS);
    });

    test('4: a refresh stores the written version and lifts the mark', async () => {
      const written = nextVersion(await givenEntry());
      await cache.refresh(await cache.mark(written.id), written);
      expect(await cache.lookUp(written.id)).toEqual({ state: 'hit', transaction: written });
    });

    test('4: a refresh stores what was not cached before', async () => {
      const written = newTransaction();
      await cache.refresh(await cache.mark(written.id), written);
      expect(await cache.lookUp(written.id)).toEqual({ state: 'hit', transaction: written });
    });

    test.each([
      ['the older version refreshed last', [1, 0]],
      ['the newer version refreshed last', [0, 1]],
    ])('4: of two marks, with %s, the newer version is stored', async (_order, order) => {
      const older = nextVersion(await givenEntry());
      const newer = nextVersion(older);
      const marks = [await cache.mark(older.id), await cache.mark(older.id)];
      const written = [older, newer];
      for (const index of order) {
        const [mark, transaction] = [marks[index], written[index]];
        if (!mark || !transaction) throw new Error(`there is no mark ${index}`);
        await cache.refresh(mark, transaction);
      }
      expect(await cache.lookUp(older.id)).toEqual({ state: 'hit', transaction: newer });
    });

    test('5: an evict leaves no entry, and the next miss gets a token', async () => {
      const { id } = await givenEntry();
      await cache.evict(await cache.mark(id));
      await missToken(id);
    });

    test('5: an evict leaves no entry when another mark is refreshed after it', async () => {
      const transaction = await givenEntry();
      const [refreshed, evicted] = [await cache.mark(transaction.id), await cache.mark(transaction.id)];
      await cache.evict(evicted);
      await cache.refresh(refreshed, nextVersion(transaction));
      await missToken(transaction.id);
    });

    test('5: an evict leaves no entry when another mark was refreshed before it', async () => {
      const transaction = await givenEntry();
      const [refreshed, evicted] = [await cache.mark(transaction.id), await cache.mark(transaction.id)];
      await cache.refresh(refreshed, nextVersion(transaction));
      await cache.evict(evicted);
      await missToken(transaction.id);
    });

    test('6: an entry is a miss once its life is over, however it was stored', async () => {
      const short = await open({ transactionCacheTtlMs: SHORT_MS });
      try {
        const filled = await givenEntry(newTransaction(), short.transactionCache);
        const refreshed = newTransaction();
        await short.transactionCache.refresh(await short.transactionCache.mark(refreshed.id), refreshed);
        await untilPast(SHORT_MS);
        await missToken(filled.id, short.transactionCache);
        await missToken(refreshed.id, short.transactionCache);
      } finally {
        await short.close();
      }
    });

    test('7: marks, fills and evicts of one id leave every other id alone', async () => {
      const other = await givenEntry();
      const { id } = await givenEntry();
      await cache.evict(await cache.mark(id));
      await cache.mark(id);
      expect(await cache.lookUp(other.id)).toEqual({ state: 'hit', transaction: other });
    });
  });
}
