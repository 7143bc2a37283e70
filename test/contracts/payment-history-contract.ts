import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { PaymentHistory, PaymentRecord, Selection } from '#idempay/payments/ports/payment-history.js';
import type { Claim, Outcome } from '#idempay/payments/values/payment.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Keys of a test are generated, by their own account, in a year of its own, so that no other test's are among them. */
const FIRST_YEAR = 1990;
const ALL = 1_000;
const DECLINE: Outcome = { state: 'DECLINED', reason: 'no funds' };

/**
 * What every PaymentHistory guarantees beyond its types:
 *
 *  1. `find` tells every row, whatever its state and past its expiry, as it is when it is asked.
 *  2. `attempts` counts the first claim and each takeover, and not a resolution.
 *  3. `newest` tells rows of the newest key first; pages put together are the whole, without gap or repetition, while other
 *     payments come and change their state.
 *  4. A selection is kept: the state, and the moment at which the key was generated, from inclusive and to exclusive.
 *  5. `settled` tells the rows that were settled in [from, to), and only those, in the order of their settling.
 *  6. Its pages put together are the whole, without gap or repetition, also where many were settled at one moment; the last
 *     one has no next.
 */
export function describePaymentHistoryContract(name: string, open: OpenPorts): void {
  describe(`the payment history contract (${name})`, () => {
    let ports: Ports;
    let ledger: Ledger;
    let history: PaymentHistory;
    let year = FIRST_YEAR;

    beforeAll(async () => {
      ports = await open();
      ({ ledger, paymentHistory: history } = ports);
    });
    afterAll(() => ports.close());

    /** Keys of one millisecond each, oldest first, the first of them of `since`; no other test has any there. */
    function ownKeys(count: number): { keys: string[]; since: number } {
      const since = Date.UTC(year, 5);
      year += 1;
      return { keys: Array.from({ length: count }, (_, index) => newKeyOf(since + index)), since };
    }

    /** A payment for each key, settled in turn as completed, declined, or not at all. */
    async function givenEveryState(keys: readonly string[]): Promise<Claim[]> {
      const claims = await Promise.all(keys.map((key) => givenClaim(ledger, { key })));
      for (const [index, claim] of claims.entries()) {
        if (index % 3 === 0) await givenSettled(ledger, claim);
        if (index % 3 === 1) await givenSettled(ledger, claim, { outcome: DECLINE });
      }
      return claims;
    }

    function newest(selection: Partial<Selection>) {
      const everything = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined };
      return history.newest({ ...everything, limit: ALL, ...selection });
    }

    async function newestPages(selection: Partial<Selection> & { limit: number }, between = async () => {}) {
      const pages: (readonly PaymentRecord[])[] = [];
      for (let before: string | undefined; ; before = pages.at(-1)?.at(-1)?.key) {
        const page = await newest({ ...selection, ...(before === undefined ? {} : { before }) });
        if (page.length === 0) return pages;
        pages.push(page);
        await between();
      }
    }

    async function settledPages(from: number, to: number, limit: number, between = async () => {}) {
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
    const newestFirst = (keys: readonly string[]) => [...keys].sort().reverse();

    describe('1: find', () => {
      test('tells a payment that is under way', async () => {
        const before = Date.now();
        const { key, transactionId, processor } = await givenClaim(ledger, { amount: '0.01', currency: 'EUR' });
        const record = await history.find(key);
        expect(record).toEqual({
          key,
          state: 'PROCESSING',
          transactionId,
          amount: '0.01',
          currency: 'EUR',
          processor,
          attempts: 1,
          claimedAt: expect.any(Number),
          settledAt: undefined,
          reason: undefined,
          resolution: undefined,
        });
        expect(record?.claimedAt).toBeGreaterThanOrEqual(before);
        expect(record?.claimedAt).toBeLessThanOrEqual(Date.now());
      });

      test('tells the outcome as soon as it is settled, and when that was', async () => {
        const claim = await givenClaim(ledger);
        const before = Date.now();
        await givenSettled(ledger, claim);
        const record = await history.find(claim.key);
        expect(record).toMatchObject({ state: 'COMPLETED', transactionId: claim.transactionId });
        expect(record?.reason).toBeUndefined();
        expect(record?.settledAt).toBeGreaterThanOrEqual(before);
        expect(record?.settledAt).toBeLessThanOrEqual(Date.now());
      });

      test('tells why a payment was declined', async () => {
        const claim = await givenClaim(ledger);
        await givenSettled(ledger, claim, { outcome: DECLINE });
        expect(await history.find(claim.key)).toMatchObject({ ...DECLINE, resolution: undefined });
      });

      test('tells a payment that is repeated no more', async () => {
        const claim = await givenClaim(ledger);
        await givenSettled(ledger, claim, { ttlMs: 1 });
        await untilPast(1);
        expect(await ledger.find(claim.key)).toEqual({ state: 'expired' });
        expect(await history.find(claim.key)).toMatchObject({ state: 'COMPLETED' });
      });

      test('tells nothing of a key that was never claimed', async () => {
        expect(await history.find(newKey())).toBeUndefined();
      });
    });

    test('2: attempts are the first claim and each takeover; a resolution is none', async () => {
      const first = await givenClaim(ledger);
      await ledger.abandon(first, 0);
      const second = await ledger.takeOver({ ...first, owner: newOwner(), leaseMs: LONG_MS });
      expect(await history.find(first.key)).toMatchObject({ attempts: 2 });
      await ledger.abandon(second as Claim, 0);
      const verdict = {
        state: 'COMPLETED',
        reason: 'seen on the statement',
        dedupMs: 0,
        idempotencyTtlMs: LONG_MS,
      } as const;
      await ledger.resolve({ key: first.key, owner: newOwner(), ...verdict });
      expect(await history.find(first.key)).toMatchObject({ attempts: 2, resolution: 'seen on the statement' });
    });

    test('3: the newest key comes first, whenever it was claimed or settled', async () => {
      const { keys, since } = ownKeys(9);
      await givenEveryState([...keys].reverse());
      const payments = await newest({ createdFrom: since, createdTo: since + 9 });
      expect(keysOf(payments)).toEqual(newestFirst(keys));
      for (const payment of payments) expect(payment).toEqual(await history.find(payment.key));
    });

    test.each([1, 2, 3, 9, 10])('3: pages of %s are the whole, without gap or repetition', async (limit) => {
      const { keys, since } = ownKeys(9);
      await givenEveryState(keys);
      const pages = await newestPages({ createdFrom: since, createdTo: since + 9, limit });
      expect(keysOf(pages.flat())).toEqual(newestFirst(keys));
      for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
    });

    test('3: pages are the whole also of keys of one millisecond', async () => {
      const { since } = ownKeys(0);
      const keys = Array.from({ length: 7 }, () => newKeyOf(since));
      await givenEveryState(keys);
      const pages = await newestPages({ createdFrom: since, createdTo: since + 1, limit: 2 });
      expect(keysOf(pages.flat())).toEqual(newestFirst(keys));
    });

    test('3: payments that come and settle between two pages neither hide nor repeat any', async () => {
      const { keys, since } = ownKeys(9);
      const open = (await givenEveryState(keys)).filter((_, index) => index % 3 === 2);
      let came = 0;
      const pages = await newestPages({ createdFrom: since, limit: 2, createdTo: since + 1_000 }, async () => {
        came += 1;
        await givenClaim(ledger, { key: newKeyOf(since + 100 + came) });
        const claim = open.shift();
        if (claim) await givenSettled(ledger, claim);
      });
      expect(keysOf(pages.flat())).toEqual(newestFirst(keys));
    });

    test('4: of each state the payments that have it, in pages too', async () => {
      const { keys, since } = ownKeys(9);
      await givenEveryState(keys);
      const range = { createdFrom: since, createdTo: since + 9 };
      for (const [remainder, state] of (['COMPLETED', 'DECLINED', 'PROCESSING'] as const).entries()) {
        const expected = newestFirst(keys.filter((_, index) => index % 3 === remainder));
        expect(keysOf(await newest({ ...range, state })), state).toEqual(expected);
        expect(keysOf((await newestPages({ ...range, state, limit: 2 })).flat()), state).toEqual(expected);
      }
    });

    test('4: of a range of time the keys generated from its begin on and before its end', async () => {
      const { keys, since } = ownKeys(5);
      await givenEveryState(keys);
      const range = { createdFrom: since + 1, createdTo: since + 3 };
      expect(keysOf(await newest(range))).toEqual(newestFirst(keys.slice(1, 3)));
      expect(keysOf(await newest({ ...range, before: keys[2] }))).toEqual([keys[1]]);
      expect(keysOf(await newest({ ...range, before: newKey() }))).toEqual(newestFirst(keys.slice(1, 3)));
      expect(await newest({ createdFrom: since + 2, createdTo: since + 2 })).toEqual([]);
      expect(keysOf(await newest({ createdTo: since + 5, limit: 5 }))).toEqual(newestFirst(keys));
    });

    test('4: without a selection the newest of all', async () => {
      const { key } = await givenClaim(ledger, { key: newKeyOf(Date.UTC(2400, 0)) });
      expect(keysOf(await newest({ limit: 1 }))).toEqual([key]);
    });

    test('5: what was settled in the period is told, and nothing else', async () => {
      const claims = await Promise.all(Array.from({ length: 3 }, () => givenClaim(ledger)));
      for (const claim of claims) {
        await givenSettled(ledger, claim);
        await untilPast(1);
      }
      const records = await Promise.all(claims.map(({ key }) => history.find(key)));
      const [first, second, third] = records.map((record) => record?.settledAt) as [number, number, number];
      const keys = keysOf(claims);
      const told = async (from: number, to: number) => keysOf((await settledPages(from, to, ALL)).flat());
      expect(await told(first, third + 1)).toEqual(keys);
      expect(await told(first, third)).toEqual(keys.slice(0, 2));
      expect(await told(second, third)).toEqual([keys[1]]);
      expect(await told(second, second)).toEqual([]);
      const [payment] = (await history.settled({ from: second, to: third, after: undefined, limit: 1 })).payments;
      expect(payment).toEqual(records[1]);
    });

    test('5: completed, declined and resolved payments are told; not those under way', async () => {
      await untilPast(SHORT_MS);
      const from = Date.now();
      const [completed, declined, resolved] = (await Promise.all(
        Array.from({ length: 4 }, () => givenClaim(ledger)),
      )) as [Claim, Claim, Claim, Claim];
      await givenSettled(ledger, completed);
      await givenSettled(ledger, declined, { outcome: DECLINE });
      await ledger.abandon(resolved, 0);
      const verdict = {
        state: 'COMPLETED',
        reason: 'seen on the statement',
        dedupMs: 0,
        idempotencyTtlMs: LONG_MS,
      } as const;
      await ledger.resolve({ key: resolved.key, owner: newOwner(), ...verdict });
      const told = (await settledPages(from, Date.now() + 1, ALL)).flat();
      expect(keysOf(told).sort()).toEqual(keysOf([completed, declined, resolved]).sort());
    });

    test.each([1, 3, 40, 41])('6: pages of %s are the whole, in order, also of one moment', async (limit) => {
      await untilPast(SHORT_MS);
      const from = Date.now();
      const claims = await Promise.all(Array.from({ length: 40 }, () => givenClaim(ledger)));
      // Together, so that some have the same time; and not in the order of their keys.
      await Promise.all(claims.toReversed().map((claim) => givenSettled(ledger, claim)));
      const to = Date.now() + 1;
      await untilPast(1);
      const pages = await settledPages(from, to, limit, async () => {
        await givenSettled(ledger, await givenClaim(ledger));
      });
      expect(keysOf(pages.flat()).sort()).toEqual(keysOf(claims).sort());
      const times = pages.flat().map(({ settledAt }) => settledAt as number);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(pages).toHaveLength(Math.ceil(40 / limit));
    });

    test('6: a period without payments is one empty page', async () => {
      const page = await history.settled({ from: 0, to: 1, after: undefined, limit: 10 });
      expect(page).toEqual({ payments: [], next: undefined });
    });

    test('6: a position that no page gave is refused', async () => {
      for (const after of ['', 'x', newKey(), '1.', `-1.${newKey()}`, `1.${newKey()}x`]) {
        await expect(history.settled({ from: 0, to: 1, after, limit: 10 }), after).rejects.toThrow(RangeError);
      }
    });
  });
}
