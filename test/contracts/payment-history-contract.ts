import { expect, test } from 'vitest';
import type { PaymentRecord, Selection } from '#idempay/payments/ports/payment-history.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { DECLINED, newKey, newKeyOf, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/** Keys of a test are generated, by their own account, in a year of its own, so that no other test's are among them. */
const FIRST_YEAR = 1990;
const ALL = 1_000;

/**
 * What every PaymentHistory guarantees beyond its types:
 *  1. `find` tells every row as it is, also past its expiry. 2. `attempts` counts claims and takeovers, and no resolution.
 *  3. Pages of `newest` put together are the whole, the newest key first, while payments come and settle. 4. A selection is kept.
 *  5. `settled` tells what was settled in [from, to), in that order. 6. Its pages put together are the whole.
 *  7. `countSettled` counts what `settled` tells, in pages of any size.
 *  7. Keys and transaction ids are found by how they begin. 8. A page of `newest` ends when it has read as much as it may.
 */
export function paymentHistoryContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  let year = FIRST_YEAR;

  /**
   * Nine payments with keys of one millisecond each, oldest first, the first of them of `since`, and any others; no other test
   * has keys there. They are settled in turn as completed, declined, or not at all, the newest first.
   */
  async function givenEveryState(others: (since: number) => string[] = () => [], client?: string) {
    const since = Date.UTC(year, 5);
    year += 1;
    const keys = [...Array.from({ length: 9 }, (_, index) => newKeyOf(since + index)), ...others(since)];
    const claims = await Promise.all(keys.map((key) => given.claim({ key, client })));
    for (const [index, claim] of [...claims.entries()].reverse()) {
      if (index % 3 === 0) await given.settled(claim);
      if (index % 3 === 1) await given.settled(claim, { outcome: DECLINED });
    }
    return { keys, since, claims };
  }

  function newestPage(selection: Partial<Selection>, readLimit = ALL) {
    const everything = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined };
    return history.newest({ ...everything, limit: ALL, ...selection }, readLimit);
  }

  const newest = async (selection: Partial<Selection>) => (await newestPage(selection)).payments;

  async function newestPages(
    selection: Partial<Selection> & { limit: number },
    between = async () => {},
    readLimit = ALL,
  ) {
    const pages: (readonly PaymentRecord[])[] = [];
    let before: string | undefined;
    do {
      const page = await newestPage({ ...selection, ...(before !== undefined && { before }) }, readLimit);
      expect(page.payments.length).toBeLessThanOrEqual(selection.limit);
      pages.push(page.payments);
      before = page.next;
      await between();
    } while (before !== undefined);
    return pages;
  }

  async function settledPages(from: number, to: number, limit = ALL, between = async () => {}) {
    const pages: (readonly PaymentRecord[])[] = [];
    let after: string | undefined;
    do {
      const page = await history.settled({ from, to, after, limit });
      pages.push(page.payments);
      after = page.next;
      await between();
    } while (after !== undefined);
    return pages;
  }

  const keysOf = (payments: readonly { readonly key: string }[]) => payments.map(({ key }) => key);
  const newestFirst = (keys: readonly string[]) => keys.toSorted().reverse();

  function expectBetween(time: number | undefined, from: number): void {
    expect(time).toBeGreaterThanOrEqual(Math.floor(from));
    expect(time).toBeLessThanOrEqual(clock.now());
  }

  test('1: a payment under way is shown with what was claimed, and when; a key without a claim is not', async () => {
    const before = clock.now();
    const { key, transactionId, processor } = await given.claim({ amount: '0.01', currency: 'EUR' });
    const record = await history.find(key);
    const claimed = { key, transactionId, amount: '0.01', currency: 'EUR', processor, claimedAt: expect.any(Number) };
    const open = { settledAt: undefined, reason: undefined, resolution: undefined };
    expect(record).toEqual({ state: 'PROCESSING', attempts: 1, ...claimed, ...open });
    expectBetween(record?.claimedAt, before);
    expect(await history.find(newKey())).toBeUndefined();
  });

  test('1: an outcome is shown as soon as it is settled and past its expiry, with when that was and why', async () => {
    const [paid, declined] = [await given.claim(), await given.claim()];
    const before = clock.now();
    await given.settled(paid, { ttlMs: 1 });
    await given.settled(declined, { outcome: DECLINED });
    const record = await history.find(paid.key);
    expect(record).toMatchObject({ state: 'COMPLETED', transactionId: paid.transactionId, reason: undefined });
    expectBetween(record?.settledAt, before);
    expect(await history.find(declined.key)).toMatchObject({ ...DECLINED, resolution: undefined });
    await pass(1);
    expect(await ledger.find(paid.key)).toEqual({ state: 'expired' });
    expect(await history.find(paid.key)).toEqual(record);
  });

  test('2: attempts are the first claim and each takeover; a resolution is none, and is shown', async () => {
    const first = await given.abandoned();
    const second = await given.takeover(first);
    expect(await history.find(first.key)).toMatchObject({ attempts: 2 });
    await ledger.abandon(second, 0);
    const [resolution, transactionId] = ['seen on the statement', first.transactionId];
    await given.resolve(first.key, { reason: resolution });
    const resolved = { state: 'COMPLETED', transactionId, attempts: 2, resolution, reason: undefined };
    expect(await history.find(first.key)).toMatchObject(resolved);
    const { key } = await given.abandoned();
    await given.resolve(key, DECLINED);
    expect(await history.find(key)).toMatchObject({ ...DECLINED, resolution: DECLINED.reason });
  });

  test('3: pages of any size have the newest key first, without gap or repetition, also of one millisecond', async () => {
    const together = (since: number) => Array.from({ length: 7 }, () => newKeyOf(since + 9));
    const { keys, since } = await givenEveryState(together);
    for (const limit of [1, 2, 3, 16, 17]) {
      const pages = await newestPages({ claimedFrom: since, claimedTo: since + 10, limit });
      expect(keysOf(pages.flat())).toEqual(newestFirst(keys));
      for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
      for (const payment of pages.flat()) expect(payment).toEqual(await history.find(payment.key));
    }
  });

  test('3: payments that come and settle between two pages neither hide nor repeat any', async () => {
    const { keys, since, claims } = await givenEveryState();
    const open = claims.filter((_, index) => index % 3 === 2);
    let came = 0;
    const pages = await newestPages({ claimedFrom: since, limit: 2, claimedTo: since + 1_000 }, async () => {
      came += 1;
      await given.claim({ key: newKeyOf(since + 100 + came) });
      const claim = open.shift();
      if (claim) await given.settled(claim);
    });
    expect(keysOf(pages.flat())).toEqual(newestFirst(keys));
  });

  test('4: a state selects the payments that have it, also in pages, of all clients or of one', async () => {
    const client = 'key:shop';
    const { keys, since } = await givenEveryState(undefined, client);
    const range = { claimedFrom: since, claimedTo: since + 9 };
    for (const [remainder, state] of (['COMPLETED', 'DECLINED', 'PROCESSING'] as const).entries()) {
      const expected = newestFirst(keys.filter((_, index) => index % 3 === remainder));
      for (const limit of [2, ALL]) {
        for (const asker of [client, undefined]) {
          const pages = await newestPages({ ...range, state, limit, client: asker });
          expect(keysOf(pages.flat()), state).toEqual(expected);
        }
      }
    }
    expect(keysOf(await newest({ ...range, client }))).toEqual(newestFirst(keys));
    expect(await newest({ ...range, client: 'key:sho' })).toEqual([]);
    await given.claim({ key: newKeyOf(since + 1), client: 'jwt:shop' });
    expect(keysOf(await newest({ ...range, client }))).toEqual(newestFirst(keys));
  });

  test('4: a time range selects keys generated from its start until before its end; without one the newest of all', async () => {
    const { keys, since } = await givenEveryState();
    const range = { claimedFrom: since + 1, claimedTo: since + 3 };
    for (const before of [undefined, newKey()])
      expect(keysOf(await newest({ ...range, before }))).toEqual([keys[2], keys[1]]);
    expect(keysOf(await newest({ ...range, before: keys[2] }))).toEqual([keys[1]]);
    expect(await newest({ claimedFrom: since + 2, claimedTo: since + 2 })).toEqual([]);
    expect(keysOf(await newest({ claimedTo: since + 9, limit: 9 }))).toEqual(newestFirst(keys));
    const { key } = await given.claim({ key: newKeyOf(Date.UTC(2400, 0)) });
    expect(keysOf(await newest({ limit: 1 }))).toEqual([key]);
  });

  test('7: keys are found by their first digits, whatever these are, alone and with every other filter', async () => {
    const { keys, since } = await givenEveryState(undefined, 'key:finder');
    const [wanted = ''] = keys;
    const digits = wanted.replaceAll('-', '');
    for (const length of [11, 12, 13, 17, 31, 32]) {
      const keyDigits = digits.slice(0, length);
      const expected = newestFirst(keys.filter((key) => key.replaceAll('-', '').startsWith(keyDigits)));
      expect(keysOf(await newest({ find: { keyDigits }, claimedFrom: since, claimedTo: since + 9 }))).toEqual(expected);
      expect(keysOf(await newest({ find: { keyDigits }, client: 'key:finder' })), keyDigits).toEqual(expected);
      expect(keysOf(await newest({ find: { keyDigits }, state: 'COMPLETED' }))).toContain(wanted);
      expect(await newest({ find: { keyDigits }, before: wanted, claimedFrom: since })).toEqual([]);
    }
    expect(await newest({ find: { keyDigits: `${digits.slice(0, 31)}${digits.endsWith('0') ? 1 : 0}` } })).toEqual([]);
    // Nothing lies above them.
    for (const keyDigits of ['f', 'f'.repeat(32)]) expect(await newest({ find: { keyDigits } })).toEqual([]);
  });

  test('7: transaction ids are found by their first digits, few of them or many, ordered by key, of all clients or of one', async () => {
    const [client, since] = ['key:ids', Date.UTC(year, 5)];
    year += 1;
    const number = `9${Math.random()}`.replace('.', '').slice(0, 12);
    const ids = ['', '0', '1', '19', '2', '99'].map((rest) => `TXN${number}5${rest}`);
    const others = [`TXN${number}49`, `TXN${number}6`, `TXN${number}60`];
    // In an order of the keys that is not that of the ids.
    const claims = await Promise.all(
      [...others, ...ids.toReversed()].map((transactionId, index) =>
        given.claim({ key: newKeyOf(since + index), transactionId, client }),
      ),
    );
    for (const id of [`TXN${number}5`, `TXN${number}51`, `TXN${number}50`, `TXN${number}598`]) {
      const expected = newestFirst(keysOf(claims.filter(({ transactionId }) => transactionId.startsWith(id))));
      for (const readLimit of [1, 3, ALL]) {
        for (const asker of [client, undefined]) {
          const range = { claimedFrom: since, claimedTo: since + 20, client: asker, limit: 2 };
          const pages = await newestPages({ ...range, find: { transactionId: id } }, undefined, readLimit);
          expect(keysOf(pages.flat()), `${id}, ${readLimit} rows`).toEqual(expected);
        }
      }
      expect(await newest({ find: { transactionId: id }, client: 'key:other' })).toEqual([]);
      expect(await newest({ find: { transactionId: id }, state: 'DECLINED' })).toEqual([]);
    }
  });

  test('8: pages that read little put together are the whole: of a processor, of a state, of a client', async () => {
    const [client, processor] = ['key:reader', newProcessorName()];
    const { keys, since } = await givenEveryState(undefined, client);
    const [first, last] = [newKeyOf(since), newKeyOf(since + 9)];
    for (const key of [first, last]) await given.settled(await given.claim({ key, processor, client }));
    const range = { claimedFrom: since, claimedTo: since + 20 };
    const completed = newestFirst([...keys.filter((_, index) => index % 3 === 0), first, last]);
    for (const readLimit of [1, 2, 5, 11, 12]) {
      for (const asker of [undefined, client]) {
        const pagesOf = async (selection: Partial<Selection>, limit: number) => {
          const pages = await newestPages({ ...range, client: asker, ...selection, limit }, undefined, readLimit);
          // Else more was read than may be: of these eleven rows each page has read so many.
          expect(pages.length).toBeGreaterThanOrEqual(Math.floor(11 / readLimit));
          return keysOf(pages.flat());
        };
        expect(await pagesOf({ processor }, 2), `${readLimit} rows`).toEqual([last, first]);
        expect(await pagesOf({ state: 'COMPLETED' }, 3), `${readLimit} rows`).toEqual(completed);
        expect(await pagesOf({ processor: 'none' }, 3)).toEqual([]);
      }
    }
    expect(keysOf(await newest({ ...range, processor, state: 'DECLINED' }))).toEqual([]);
    const open = await given.claim({ key: newKeyOf(since + 10), processor });
    expect(keysOf(await newest({ ...range, processor, state: 'PROCESSING' }))).toEqual([open.key]);
  });

  test('5: what was settled in the period is shown in its order, and nothing else', async () => {
    await pass(SHORT_MS);
    const claims = (await given.claims(4)) as [Claim, Claim, Claim, Claim];
    const [declined, resolved, completed] = claims;
    await given.settled(declined, { outcome: DECLINED });
    await pass(1);
    await ledger.abandon(resolved, 0);
    await given.resolve(resolved.key);
    await pass(1);
    await given.settled(completed);
    const keys = keysOf([declined, resolved, completed]);
    const records = await Promise.all(keys.map((key) => history.find(key)));
    const [first, second, third] = records.map((record) => record?.settledAt) as [number, number, number];
    const shown = async (from: number, to: number) => (await settledPages(from, to)).flat();
    expect(await shown(first, third + 1)).toEqual(records);
    expect(keysOf(await shown(first, third))).toEqual(keys.slice(0, 2));
    expect(keysOf(await shown(second, third))).toEqual([keys[1]]);
    expect(await shown(second, second)).toEqual([]);
  });

  test('6: pages of any size are the whole, in order, also of one moment, and while others settle', async () => {
    await pass(SHORT_MS);
    const from = clock.now();
    const claims = await given.claims(40);
    // Together, so that some have the same time; and not in the order of their keys.
    await Promise.all(claims.toReversed().map((claim) => given.settled(claim)));
    const to = clock.now() + 1;
    await pass(1);
    for (const limit of [1, 3, 40, 41]) {
      const pages = await settledPages(from, to, limit, async () => {
        await given.settled(await given.claim());
      });
      expect(keysOf(pages.flat()).sort()).toEqual(keysOf(claims).sort());
      const times = pages.flat().map(({ settledAt }) => settledAt as number);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(pages).toHaveLength(Math.ceil(40 / limit));
    }
  });

  test('6: a period without payments is one empty page, and a position that no page gave is refused', async () => {
    expect(await settledPages(0, 1)).toEqual([[]]);
    for (const after of ['', 'x', newKey(), '1.', `-1.${newKey()}`, `1.${newKey()}x`]) {
      await expect(history.settled({ from: 0, to: 1, after, limit: 10 }), after).rejects.toThrow(RangeError);
    }
  });

  test('7: counts of any pages add up to what is shown of the period, by outcome, and leave out what is under way', async () => {
    await pass(SHORT_MS);
    const from = clock.now();
    const claims = await given.claims(31);
    await Promise.all(
      claims.slice(1).map((claim, index) => given.settled(claim, index % 3 === 0 ? { outcome: DECLINED } : {})),
    );
    await pass(1);
    const to = clock.now();
    await pass(1);
    await given.settled(claims[0] as Claim);
    const shown = (await settledPages(from, to)).flat();
    expect(shown).toHaveLength(30);
    for (const limit of [1, 7, 30, 31]) {
      const counted = { completed: 0, declined: 0 };
      let after: string | undefined;
      let pages = 0;
      do {
        const page = await history.countSettled({ from, to, after, limit });
        expect(page.completed + page.declined).toBeLessThanOrEqual(limit);
        counted.completed += page.completed;
        counted.declined += page.declined;
        after = page.next;
        pages += 1;
      } while (after !== undefined);
      expect(counted).toEqual({ completed: 20, declined: 10 });
      expect(pages).toBe(Math.floor(30 / limit) + 1);
    }
    expect(await history.countSettled({ from: 0, to: 1, after: undefined, limit: 1 })).toEqual({
      ...{ completed: 0, declined: 0, next: undefined },
    });
    await expect(history.countSettled({ from: 0, to: 1, after: 'x', limit: 1 })).rejects.toThrow(RangeError);
  });
}
