import { expect, test } from 'vitest';
import type { Outcome } from '#idempay/payments/values/payment.js';
import { transactionJson } from '#idempay/transactions/representation.js';
import { FIRST_TRANSACTION_ID, type Transaction } from '#idempay/transactions/transaction.js';
import {
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  SHORT_LIFE_MS,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts, OpenPorts, PortSettings } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';

/**
 * Guarantees of every KeyValueStoreReport beyond its types (`ping` and the other statistics: `test/http/general.test.ts`):
 *  1. Under a key stands its record's value, 2. under `transactionCache::<id>` the transaction as a client sees it.
 *  3. The life that remains is told in whole seconds. 4. Nothing else is there, and looking changes nothing.
 *  5. The statistics follow what is stored and what expires.
 */
export function keyValueStoreReportContract(ports: ContractPorts, open: OpenPorts): void {
  const { keyValueStore: report, pass } = ports;
  const given = paymentSteps(ports);
  let nextId = FIRST_TRANSACTION_ID + 1_000_000;

  /** On stores of their own, in which nothing expires or is counted for other tests. */
  async function onFreshStores(settings: PortSettings, look: (fresh: ContractPorts) => Promise<void>): Promise<void> {
    const fresh = await open(settings);
    await look(fresh).finally(() => fresh.close());
  }

  async function paidKey(outcome?: Outcome): Promise<{ key: string; transactionId: string }> {
    const claim = await given.claim({ key: await given.issuedKey() });
    await ports.keys.finish(claim.key, claim.owner, await given.settled(claim, outcome && { outcome }));
    return claim;
  }

  async function cachedTransaction({ transactionCache }: Pick<ContractPorts, 'transactionCache'> = ports) {
    nextId += 1;
    const accounts = { fromAccount: 'A"\u00e9', toAccount: 'B' };
    const rest = { amount: '100.5', status: 'PENDING', version: 3, createdAt: 1_700_000_000_000 } as const;
    const transaction: Transaction = { id: nextId, ...accounts, ...rest };
    await transactionCache.refresh(await transactionCache.mark(nextId), transaction);
    return { transaction, name: `transactionCache::${nextId}` };
  }

  /** What has passed since `begunMs` may be missing, which is less than half a second unless the machine is slow. */
  function expectRemaining(
    shown: { readonly ttlSeconds: number | null } | undefined,
    ttlMs: number,
    begunMs: number,
  ): void {
    const leastMs = ttlMs - (performance.now() - begunMs) - clockSetBackMs();
    expect(shown?.ttlSeconds).toBeGreaterThanOrEqual(Math.ceil(leastMs / 1000));
    expect(shown?.ttlSeconds).toBeLessThanOrEqual(Math.ceil(ttlMs / 1000));
  }

  test('1: a key has the value KEY GENERATED, also while it is locked; then the transaction id, or DECLINED', async () => {
    const key = await given.issuedKey();
    expect(await report.value(key)).toMatchObject({ value: 'KEY GENERATED' });
    await given.begin(key);
    expect(await report.value(key)).toMatchObject({ value: 'KEY GENERATED' });
    const begunMs = performance.now();
    const paid = await paidKey();
    const shown = await report.value(paid.key);
    expect(shown).toEqual({ value: paid.transactionId, ttlSeconds: expect.any(Number) });
    expectRemaining(shown, LONG_MS, begunMs);
    expect(await report.value((await paidKey(DECLINED)).key)).toMatchObject({ value: 'DECLINED' });
    const claim = await given.abandoned({ key: await given.issuedKey() });
    const { final } = inState(await given.resolve(claim.key, { owner: 'operator' }), 'resolved');
    await ports.keys.finish(claim.key, 'operator', final);
    expect(await report.value(claim.key)).toMatchObject({ value: claim.transactionId });
  });

  test('2: a cached transaction is shown as a client sees it; an evicted one is not there', async () => {
    const { transaction, name } = await cachedTransaction();
    expect(await report.value(name)).toEqual({ value: transactionJson(transaction), ttlSeconds: expect.any(Number) });
    await ports.transactionCache.evict(await ports.transactionCache.mark(transaction.id));
    expect(await report.value(name)).toBeUndefined();
  });

  test('3: the life that remains is told in whole seconds, rounded up', async () => {
    for (const ttlMs of [90_000, 89_500]) {
      const begunMs = performance.now();
      expectRemaining(await report.value(await given.issuedKey(ttlMs)), ttlMs, begunMs);
    }
    await onFreshStores({ transactionCacheTtlMs: 89_500 }, async (fresh) => {
      const begunMs = performance.now();
      const { name } = await cachedTransaction(fresh);
      expectRemaining(await fresh.keyValueStore.value(name), 89_500, begunMs);
    });
  });

  test('3: an expired key and an expired cache entry are not there', async () => {
    await onFreshStores({ transactionCacheTtlMs: SHORT_MS }, async (fresh) => {
      const [{ name }, key] = [await cachedTransaction(fresh), newKey()];
      await fresh.keys.issue(key, SHORT_MS);
      await pass(SHORT_MS);
      for (const expired of [key, name]) expect(await fresh.keyValueStore.value(expired)).toBeUndefined();
    });
  });

  test('4: what is no key of this service is not there, also when it resembles one', async () => {
    const key = await given.issuedKey();
    const { id } = (await cachedTransaction()).transaction;
    const likeKeys = [newKey(), `${key} `, `${key}\0`, `{${key}}`, key.slice(0, -1)];
    const likeIds = [`${id + 1}`, `0${id}`, `${id}x`, '', '*'].map((each) => `transactionCache::${each}`);
    const others = ['', ' ', '*', String(id), `transactioncache::${id}`, 'transactionCache', 'x'.repeat(10_000)];
    for (const name of [...likeKeys, ...likeIds, ...others])
      expect(await report.value(name), name.slice(0, 50)).toBeUndefined();
    // The same UUID, as some platforms write it.
    expect(await report.value(key.toUpperCase())).toMatchObject({ value: 'KEY GENERATED' });
  });

  test('4: looking at a key neither takes it nor lets it live longer', async () => {
    const key = await given.issuedKey(SHORT_LIFE_MS);
    await expect.poll(() => report.value(key)).toBeUndefined();
    expect(await ports.keys.look(key)).toMatchObject({ state: 'absent' });
  });

  test('5: totalKeys counts keys and cached transactions, and an expired key is counted as such instead', async () => {
    await onFreshStores({}, async ({ keys, keyValueStore, ...fresh }) => {
      const before = await keyValueStore.statistics();
      for (let key = 0; key < 2; key += 1) await keys.issue(newKey(), LONG_MS);
      await cachedTransaction(fresh);
      const totalKeys = before.totalKeys + 3;
      expect(await keyValueStore.statistics()).toMatchObject({ totalKeys });
      await keys.issue(newKey(), SHORT_MS);
      const isExpired = async () => (await keyValueStore.statistics()).expiredKeys > before.expiredKeys;
      await expect.poll(isExpired).toBe(true);
      expect(await keyValueStore.statistics()).toMatchObject({ totalKeys });
    });
  });
}
