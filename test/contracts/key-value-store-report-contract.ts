import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyValueStoreReport } from '#idempay/health/key-value-store.js';
import type { Outcome } from '#idempay/payments/values/payment.js';
import { transactionJson } from '#idempay/transactions/representation.js';
import { FIRST_TRANSACTION_ID, type Transaction } from '#idempay/transactions/transaction.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const EXPIRY_DEADLINE_MS = 10_000;

/**
 * What every KeyValueStoreReport guarantees beyond its types:
 *
 *  1. `ping` resolves while the store answers.
 *  2. Under the bare key stands the record's value: `KEY GENERATED`, then the transaction id, or `DECLINED`.
 *  3. Under `transactionCache::<id>` stands the cached transaction, as a client sees it.
 *  4. The remaining life is told in whole seconds, rounded up; what is past its life is not there.
 *  5. Nothing else is seen, whatever the store holds beside it, and looking changes nothing.
 *  6. The statistics are whole numbers that follow what happens: keys, hits and misses, expiries.
 */
export function describeKeyValueStoreReportContract(name: string, open: OpenPorts): void {
  describe(`the contract of the key-value store's report (${name})`, () => {
    let ports: Ports;
    let report: KeyValueStoreReport;
    let nextId = FIRST_TRANSACTION_ID;

    beforeAll(async () => {
      ports = await open();
      report = ports.keyValueStore;
    });
    afterAll(() => ports.close());

    async function issuedKey(ttlMs = LONG_MS): Promise<string> {
      const key = newKey();
      await ports.keys.issue(key, ttlMs);
      return key;
    }

    async function settledKey(outcome?: Outcome): Promise<{ key: string; transactionId: string }> {
      const claim = await givenClaim(ports.ledger, { key: await issuedKey() });
      const final = await givenSettled(ports.ledger, claim, outcome ? { outcome } : {});
      await ports.keys.finish(claim.key, claim.owner, final);
      return claim;
    }

    async function cachedTransaction(of = ports): Promise<Transaction> {
      nextId += 1;
      const transaction: Transaction = {
        id: nextId,
        fromAccount: 'A"\u00e9',
        toAccount: 'B',
        amount: '100.5',
        status: 'PENDING',
        version: 3,
        createdAt: 1_700_000_000_000,
      };
      await of.transactionCache.refresh(await of.transactionCache.mark(nextId), transaction);
      return transaction;
    }

    test('1: a ping resolves, and the store says which it is', async () => {
      await expect(report.ping()).resolves.toBeUndefined();
      expect(['embedded', 'redis']).toContain(report.store);
    });

    test('2: an issued key has the value KEY GENERATED, also while it is locked', async () => {
      const key = await issuedKey();
      expect(await report.value(key)).toMatchObject({ value: 'KEY GENERATED' });
      await ports.keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 EUR' });
      expect(await report.value(key)).toMatchObject({ value: 'KEY GENERATED' });
    });

    test('2: the key of a completed payment has the transaction id for its value', async () => {
      const { key, transactionId } = await settledKey();
      expect(await report.value(key)).toEqual({ value: transactionId, ttlSeconds: LONG_MS / 1000 });
    });

    test('2: the key of a declined payment has the value DECLINED, without the reason', async () => {
      const { key } = await settledKey({ state: 'DECLINED', reason: 'no funds' });
      expect(await report.value(key)).toMatchObject({ value: 'DECLINED' });
    });

    test('3: a cached transaction is shown as a client sees it; an evicted one is not there', async () => {
      const transaction = await cachedTransaction();
      const shown = await report.value(`transactionCache::${transaction.id}`);
      expect(shown).toEqual({ value: transactionJson(transaction), ttlSeconds: expect.any(Number) });
      await ports.transactionCache.evict(await ports.transactionCache.mark(transaction.id));
      expect(await report.value(`transactionCache::${transaction.id}`)).toBeUndefined();
    });

    test('4: the life that remains is told in whole seconds, rounded up', async () => {
      expect(await report.value(await issuedKey(90_000))).toMatchObject({ ttlSeconds: 90 });
      expect(await report.value(await issuedKey(89_500))).toMatchObject({ ttlSeconds: 90 });
      const short = await open({ transactionCacheTtlMs: 89_500 });
      try {
        const { id } = await cachedTransaction(short);
        expect(await short.keyValueStore.value(`transactionCache::${id}`)).toMatchObject({ ttlSeconds: 90 });
      } finally {
        await short.close();
      }
    });

    test('4: an expired key is not there', async () => {
      const key = await issuedKey(SHORT_MS);
      await untilPast(SHORT_MS);
      expect(await report.value(key)).toBeUndefined();
    });

    test('4: an expired cache entry is not there', async () => {
      const short = await open({ transactionCacheTtlMs: SHORT_MS });
      try {
        const { id } = await cachedTransaction(short);
        await untilPast(SHORT_MS);
        expect(await short.keyValueStore.value(`transactionCache::${id}`)).toBeUndefined();
      } finally {
        await short.close();
      }
    });

    test('5: what is no key of this service is not there, also when it resembles one', async () => {
      const key = await issuedKey();
      const { id } = await cachedTransaction();
      const foreign = [
        '',
        ' ',
        '*',
        newKey(),
        key.toUpperCase(),
        `${key} `,
        `${key}\0`,
        `{${key}}`,
        key.slice(0, -1),
        String(id),
        `transactionCache::${id + 1}`,
        `transactionCache::0${id}`,
        `transactionCache::${id}x`,
        `transactionCache::`,
        `transactionCache::*`,
        `transactioncache::${id}`,
        'transactionCache',
        'x'.repeat(10_000),
      ];
      for (const name of foreign) expect(await report.value(name), name).toBeUndefined();
    });

    test('5: looking at a key neither takes it nor lets it live longer', async () => {
      const key = await issuedKey(20 * SHORT_MS);
      await until('the key to expire', EXPIRY_DEADLINE_MS, async () => (await report.value(key)) === undefined);
      expect(await ports.keys.look(key)).toMatchObject({ state: 'absent' });
    });

    test('6: every statistic is a whole number, and the version looks like one', async () => {
      const { version, ...numbers } = await report.statistics();
      expect(version).toMatch(/^\d+\.\d+/);
      for (const [statistic, value] of Object.entries(numbers)) {
        expect(Number.isSafeInteger(value) && value >= 0, `${statistic} is ${value}`).toBe(true);
      }
      expect(Object.keys(numbers).sort()).toEqual([
        'connectedClients',
        'evictedKeys',
        'expiredKeys',
        'hits',
        'misses',
        'totalKeys',
        'uptimeSeconds',
        'usedMemoryBytes',
      ]);
      expect(numbers.usedMemoryBytes).toBeGreaterThan(0);
      expect(numbers.connectedClients).toBeGreaterThan(0);
    });

    test('6: totalKeys counts issued keys and cached transactions', async () => {
      // A store of its own: keys of the other tests expire, and a sweep between the two readings would take them away.
      const fresh = await open();
      try {
        const before = (await fresh.keyValueStore.statistics()).totalKeys;
        await fresh.keys.issue(newKey(), LONG_MS);
        await fresh.keys.issue(newKey(), LONG_MS);
        await cachedTransaction(fresh);
        expect((await fresh.keyValueStore.statistics()).totalKeys).toBe(before + 3);
      } finally {
        await fresh.close();
      }
    });

    test('6: hits and misses count what was found and what was not', async () => {
      const before = await report.statistics();
      await ports.keys.look(newKey());
      const missed = await report.statistics();
      expect(missed.misses).toBeGreaterThan(before.misses);
      const { id } = await cachedTransaction();
      await ports.transactionCache.lookUp(id);
      expect((await report.statistics()).hits).toBeGreaterThan(missed.hits);
    });

    test('6: an expired key is counted, and no longer among the keys', async () => {
      const fresh = await open();
      try {
        const before = await fresh.keyValueStore.statistics();
        await fresh.keys.issue(newKey(), SHORT_MS);
        await until('the key to be counted as expired', EXPIRY_DEADLINE_MS, async () => {
          const { expiredKeys, totalKeys } = await fresh.keyValueStore.statistics();
          return expiredKeys > before.expiredKeys && totalKeys <= before.totalKeys;
        });
      } finally {
        await fresh.close();
      }
    });
  });
}
