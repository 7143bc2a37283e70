import { expect, test } from 'vitest';
import type { PaymentRecord, Selection } from '#idempay/payments/ports/payment-history.js';
import type { Content } from '#idempay/payments/values/content.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  DECLINED,
  newKey,
  newKeyOf,
  newProcessorName,
  newReference,
  newTransactionId,
  newTransactionIdOf,
  SHORT_MS,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';

/** Payments of a test have transaction ids, by their own account, of a year of its own, so that no other test's are among them. */
const FIRST_YEAR = 2002;
const ALL = 1_000;

/**
 * Guarantees of every PaymentHistory beyond its types:
 *  1. `find` tells every row as it is, also past its expiry. 2. `executions` counts claims and takeovers, and no resolution.
 *  3. Pages of `newest` put together are the whole, the newest transaction id first, while payments come and settle.
 *  4. A selection is kept. 5. `settled` tells what was settled in [from, to), in that order. 6. Its pages put together are the whole.
 *  7. `countSettled` counts what `settled` tells, in pages of any size. 8. Keys and transaction ids are found by how they begin.
 *  9. A page of `newest` ends when it has read as much as it may. 10. All attempts at a reference are found by it, and the newest.
 * 11. A payment is found by its whole description, and by the whole value of one of its metadata.
 * 12. Payments that are pending are found alone, and among those that are PROCESSING; one that is final is not pending.
 */
export function paymentHistoryContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  let year = FIRST_YEAR;

  /** The first moment of which this test may have transaction ids. */
  function newTime(): number {
    year += 1;
    return Date.UTC(year, 5);
  }

  /** So many payments with these transaction ids, and with keys in the opposite order. */
  function claimsOf(ids: readonly string[], client?: string): Promise<Claim[]> {
    const attempts = ids.toReversed().map((transactionId) => ({ key: newKey(), transactionId, client }));
    return Promise.all(attempts.reverse().map((attempt) => given.claim(attempt)));
  }

  /**
   * Nine payments with transaction ids of one millisecond each, oldest first, the first of them of `since`, and any others; no
   * other test has ids there. They are settled in turn as completed, declined, or not at all, the newest first.
   */
  async function givenEveryState(others: (since: number) => string[] = () => [], client?: string) {
    const since = newTime();
    const ids = [...Array.from({ length: 9 }, (_, index) => newTransactionIdOf(since + index)), ...others(since)];
    const claims = await claimsOf(ids, client);
    for (const [index, claim] of [...claims.entries()].reverse()) {
      if (index % 3 === 0) await given.settled(claim);
      if (index % 3 === 1) await given.settled(claim, { outcome: DECLINED });
    }
    return { since, claims };
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
  /** Their keys. */
  const newestFirst = (claims: readonly Claim[]) =>
    keysOf(claims.toSorted((a, b) => (a.transactionId < b.transactionId ? 1 : -1)));

  function expectBetween(time: number | undefined, from: number): void {
    expect(time).toBeGreaterThanOrEqual(Math.floor(from));
    expect(time).toBeLessThanOrEqual(clock.now() + clockSetBackMs());
  }

  test('1: a payment under way is shown with what was claimed, and when; a key without a claim is not', async () => {
    const before = clock.now();
    const { key, transactionId, processor } = await given.claim({ amount: '0.01', currency: 'EUR' });
    const record = await history.find(key);
    const claimed = { key, transactionId, amount: '0.01', currency: 'EUR', processor, claimedAt: expect.any(Number) };
    const open = { settledAt: undefined, reason: undefined, resolution: undefined };
    const owner = { client: undefined, reference: undefined, attempt: undefined };
    const content = { description: undefined, metadata: undefined };
    expect(record).toEqual({ state: 'PROCESSING', executions: 1, ...claimed, ...open, ...owner, ...content });
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

  test('2: executions are the first claim and each takeover; a resolution is none, and is shown', async () => {
    const first = await given.abandoned();
    const second = await given.takeover(first);
    expect(await history.find(first.key)).toMatchObject({ executions: 2 });
    await ledger.abandon(second, 0);
    const [resolution, transactionId] = ['seen on the statement', first.transactionId];
    await given.resolve(first.key, { reason: resolution });
    const resolved = { state: 'COMPLETED', transactionId, executions: 2, resolution, reason: undefined };
    expect(await history.find(first.key)).toMatchObject(resolved);
    const { key } = await given.abandoned();
    await given.resolve(key, DECLINED);
    expect(await history.find(key)).toMatchObject({ ...DECLINED, resolution: DECLINED.reason });
  });

  test('1: a payment that was cancelled has no amount, currency, processor, transaction id or execution, and its reference', async () => {
    const before = clock.now();
    const [plain, closed] = [
      await given.cancelled(),
      await given.cancelled(turn(newReference(), 1, { client: 'key:shop' })),
    ];
    const nothing = {
      ...{ transactionId: undefined, amount: undefined, currency: undefined, processor: undefined },
      ...{ description: undefined, metadata: undefined },
    };
    for (const { key, client, turn: { reference } = {} } of [plain, closed]) {
      const record = await history.find(key);
      expect({ ...nothing, ...record }).toEqual({
        ...{ key, client, reference: reference?.text, attempt: reference?.attempt, state: 'CANCELLED', executions: 0 },
        ...{
          claimedAt: record?.settledAt,
          settledAt: record?.claimedAt,
          reason: undefined,
          resolution: undefined,
          ...nothing,
        },
      });
      expectBetween(record?.claimedAt, before);
    }
  });

  test('3: pages of any size have the newest transaction id first, without gap or repetition, also of one millisecond', async () => {
    const together = (since: number) => Array.from({ length: 7 }, () => newTransactionIdOf(since + 9));
    const { claims, since } = await givenEveryState(together);
    for (const limit of [1, 2, 3, 16, 17]) {
      const pages = await newestPages({ claimedFrom: since, claimedTo: since + 10, limit });
      expect(keysOf(pages.flat())).toEqual(newestFirst(claims));
      for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
      for (const payment of pages.flat()) expect(payment).toEqual(await history.find(payment.key));
    }
  });

  test('3: payments that come and settle between two pages neither hide nor repeat any', async () => {
    const { since, claims } = await givenEveryState();
    const open = claims.filter((_, index) => index % 3 === 2);
    let came = 0;
    const pages = await newestPages({ claimedFrom: since, limit: 2, claimedTo: since + 1_000 }, async () => {
      came += 1;
      await given.claim({ transactionId: newTransactionIdOf(since + 100 + came) });
      const claim = open.shift();
      if (claim) await given.settled(claim);
    });
    expect(keysOf(pages.flat())).toEqual(newestFirst(claims));
  });

  test('4: a state selects the payments that have it, also in pages, of all clients or of one', async () => {
    const client = 'key:shop';
    const { claims, since } = await givenEveryState(undefined, client);
    const closed = await given.cancelled({ client, transactionId: newTransactionIdOf(since + 3) });
    const range = { claimedFrom: since, claimedTo: since + 9 };
    const expected = {
      COMPLETED: newestFirst(claims.filter((_, index) => index % 3 === 0)),
      DECLINED: newestFirst(claims.filter((_, index) => index % 3 === 1)),
      PROCESSING: newestFirst(claims.filter((_, index) => index % 3 === 2)),
      CANCELLED: [closed.key],
    };
    for (const state of ['COMPLETED', 'DECLINED', 'PROCESSING', 'CANCELLED'] as const) {
      for (const limit of [2, ALL]) {
        for (const asker of [client, undefined]) {
          const pages = await newestPages({ ...range, state, limit, client: asker });
          expect(keysOf(pages.flat()), state).toEqual(expected[state]);
        }
      }
    }
    expect(await newest({ ...range, client })).toHaveLength(10);
    expect(await newest({ ...range, client: 'key:sho' })).toEqual([]);
    await given.claim({ transactionId: newTransactionIdOf(since + 1), client: 'jwt:shop' });
    expect(await newest({ ...range, client })).toHaveLength(10);
  });

  test('4: a time range selects payments first claimed from its start until before its end; without one the newest of all', async () => {
    const { claims, since } = await givenEveryState();
    const [, second, third] = claims as [Claim, Claim, Claim];
    const range = { claimedFrom: since + 1, claimedTo: since + 3 };
    for (const before of [undefined, newTransactionId()])
      expect(keysOf(await newest({ ...range, before }))).toEqual([third.key, second.key]);
    expect(keysOf(await newest({ ...range, before: third.transactionId }))).toEqual([second.key]);
    expect(await newest({ claimedFrom: since + 2, claimedTo: since + 2 })).toEqual([]);
    // A part of a millisecond belongs to none.
    expect(keysOf(await newest({ claimedFrom: since + 0.5, claimedTo: since + 1.5 }))).toEqual([second.key]);
    expect(keysOf(await newest({ claimedTo: since + 9, limit: 9 }))).toEqual(newestFirst(claims));
    const { key } = await given.claim({ transactionId: newTransactionIdOf(Date.UTC(2286, 0)) });
    expect(keysOf(await newest({ limit: 1 }))).toEqual([key]);
  });

  test('8: keys are found by their first digits, whatever these are, alone and with every other filter', async () => {
    const { claims, since } = await givenEveryState(undefined, 'key:finder');
    const [wanted] = claims as [Claim];
    const digits = wanted.key.replaceAll('-', '');
    const range = { claimedFrom: since, claimedTo: since + 9 };
    for (const length of [11, 12, 13, 17, 31, 32]) {
      const find = { keyDigits: digits.slice(0, length) };
      const alike = claims.filter(({ key }) => key.replaceAll('-', '').startsWith(find.keyDigits));
      expect(keysOf(await newest({ find, ...range }))).toEqual(newestFirst(alike));
      expect(keysOf(await newest({ find, client: 'key:finder' })), find.keyDigits).toEqual(newestFirst(alike));
      expect(keysOf(await newest({ find, ...range, state: 'COMPLETED' }))).toContain(wanted.key);
      expect(await newest({ find, before: wanted.transactionId, claimedFrom: since })).toEqual([]);
    }
    expect(await newest({ find: { keyDigits: `${digits.slice(0, 31)}${digits.endsWith('0') ? 1 : 0}` } })).toEqual([]);
    // Nothing lies above it.
    expect(await newest({ find: { keyDigits: 'f'.repeat(32) } })).toEqual([]);
  });

  test('8: keys that begin alike, few or many, come in the order of their transaction ids, in pages of any size', async () => {
    const [since, client] = [newTime(), 'key:alike'];
    // The first twelve digits of a key are a time, which differs from the time in its transaction id.
    const keysAt = Array.from({ length: 7 }, () => newKeyOf(since));
    const ids = keysAt.map((_, index) => newTransactionIdOf(since + ((index * 3) % 7)));
    const claims = await Promise.all(
      keysAt.map((key, index) => given.claim({ key, transactionId: ids[index] as string, client })),
    );
    await given.claim({ key: newKeyOf(since + 256), transactionId: newTransactionIdOf(since + 2), client });
    const find = { keyDigits: claims[0]?.key.replaceAll('-', '').slice(0, 12) ?? '' };
    for (const readLimit of [1, 3, 7, ALL]) {
      for (const limit of [1, 2, 7, 8]) {
        for (const asker of [client, undefined]) {
          const range = { claimedFrom: since, claimedTo: since + 9, client: asker, limit };
          const pages = await newestPages({ ...range, find }, undefined, readLimit);
          expect(keysOf(pages.flat()), `${readLimit} rows, ${limit} each`).toEqual(newestFirst(claims));
        }
      }
    }
  });

  test('8: transaction ids are found by their first digits, few of them or many, of all clients or of one', async () => {
    const [client, since] = ['key:ids', newTime()];
    const number = newTransactionIdOf(since).slice(0, -6);
    const ids = ['500000', '505555', '511111', '519999', '590000', '599999'].map((rest) => `${number}${rest}`);
    const claims = await claimsOf(
      [...['499999', '600000', '000000'].map((rest) => `${number}${rest}`), ...ids],
      client,
    );
    for (const id of [`${number}5`, `${number}51`, `${number}50`, `${number}599999`, number]) {
      const expected = newestFirst(claims.filter(({ transactionId }) => transactionId.startsWith(id)));
      for (const readLimit of [1, 3, ALL]) {
        for (const asker of [client, undefined]) {
          const range = { claimedFrom: since, claimedTo: since + 20, client: asker, limit: 2 };
          const pages = await newestPages({ ...range, find: { transactionId: id } }, undefined, readLimit);
          expect(keysOf(pages.flat()), `${id}, ${readLimit} rows`).toEqual(expected);
        }
      }
      expect(keysOf(await newest({ find: { transactionId: id } }))).toEqual(expected);
      expect(await newest({ find: { transactionId: id }, claimedFrom: since + 1 })).toEqual([]);
      expect(await newest({ find: { transactionId: id }, client: 'key:other' })).toEqual([]);
      expect(await newest({ find: { transactionId: id }, state: 'DECLINED' })).toEqual([]);
    }
  });

  test('9: pages that read little put together are the whole: of a processor, of a state, of a client', async () => {
    const [client, processor] = ['key:reader', newProcessorName()];
    const { claims, since } = await givenEveryState(undefined, client);
    const ends: Claim[] = [];
    for (const ms of [since - 1, since + 9]) {
      ends.push(await given.claim({ transactionId: newTransactionIdOf(ms), processor, client }));
    }
    for (const claim of ends) await given.settled(claim);
    const range = { claimedFrom: since - 1, claimedTo: since + 20 };
    const completed = newestFirst([...claims.filter((_, index) => index % 3 === 0), ...ends]);
    for (const readLimit of [1, 2, 5, 11, 12]) {
      for (const asker of [undefined, client]) {
        const pagesOf = async (selection: Partial<Selection>, limit: number) => {
          const pages = await newestPages({ ...range, client: asker, ...selection, limit }, undefined, readLimit);
          // Else more was read than may be: each page has read this number of these eleven rows.
          expect(pages.length).toBeGreaterThanOrEqual(Math.floor(11 / readLimit));
          return keysOf(pages.flat());
        };
        expect(await pagesOf({ processor }, 2), `${readLimit} rows`).toEqual(newestFirst(ends));
        expect(await pagesOf({ state: 'COMPLETED' }, 3), `${readLimit} rows`).toEqual(completed);
        expect(await pagesOf({ processor: 'none' }, 3)).toEqual([]);
      }
    }
    expect(keysOf(await newest({ ...range, processor, state: 'DECLINED' }))).toEqual([]);
    const open = await given.claim({ transactionId: newTransactionIdOf(since + 10), processor });
    expect(keysOf(await newest({ ...range, processor, state: 'PROCESSING' }))).toEqual([open.key]);
  });

  test('11: content selects the payments that have exactly this description or value, in pages that read little', async () => {
    const [since, client] = [newTime(), 'key:content'];
    const wanted = 'a_%\\"\u{1f600}\n\u2028,Ä';
    const others: (Content | undefined)[] = [
      ...[wanted.toLowerCase(), wanted.slice(1), `${wanted} `, `x${wanted}`, 'A\u0308'].map((description) => ({
        description,
      })),
      { metadata: { [wanted]: 'a name, and no value' } },
      { description: 'a,', metadata: { 'b:': 'c' } },
      { metadata: {} },
      undefined,
    ];
    const found: Content[] = [
      { description: wanted },
      { metadata: { 'e-mail': wanted } },
      { description: 'Shoes', metadata: { cart: '8812', other: wanted } },
    ];
    const contents: (Content | undefined)[] = [found[0], ...others, found[1], found[2]];
    const claims: Claim[] = [];
    for (const [index, content] of contents.entries()) {
      claims.push(await given.claim({ transactionId: newTransactionIdOf(since + index), client, content }));
    }
    const expected = newestFirst(claims.filter((_, index) => found.includes(contents[index] ?? {})));
    const range = { claimedFrom: since, claimedTo: since + contents.length };
    for (const readLimit of [1, 2, 5, ALL]) {
      for (const asker of [undefined, client]) {
        const pages = await newestPages({ ...range, content: wanted, client: asker, limit: 2 }, undefined, readLimit);
        expect(keysOf(pages.flat()), `${readLimit} rows`).toEqual(expected);
        // Else more was read than may be.
        expect(pages.length).toBeGreaterThanOrEqual(Math.floor(contents.length / readLimit));
      }
    }
    const one = { ...range, content: wanted };
    expect(keysOf(await newest({ ...one, claimedFrom: since + 1 }))).toEqual(expected.slice(0, 2));
    for (const nothing of [{ client: 'key:other' }, { state: 'COMPLETED' as const }, { processor: 'none' }]) {
      expect(await newest({ ...one, ...nothing })).toEqual([]);
    }
    const digits = (expected[0] ?? '').replaceAll('-', '');
    expect(keysOf(await newest({ ...one, find: { keyDigits: digits } }))).toEqual([expected[0]]);
    // Texts that stand between the values in the row, and the name of a member.
    for (const content of [',', ':', ',"', '}', 'description', 'metadata', '{}', 'cart', '%', '_', '']) {
      expect(await newest({ ...range, content }), content).toEqual([]);
    }
    expect(keysOf(await newest({ ...range, content: '8812' }))).toEqual(expected.slice(0, 1));
  });

  /** Nine payments that are PROCESSING, every other one pending, and two that were pending and are settled. The oldest first. */
  async function givenPending(client?: string, processor?: string) {
    const since = newTime();
    const ids = Array.from({ length: 9 }, (_, index) => newTransactionIdOf(since + index));
    const open: Claim[] = [];
    for (const [index, transactionId] of ids.entries()) {
      const members = { transactionId, client, ...(processor && { processor }) };
      open.push(await (index % 2 === 0 ? given.pending(members) : given.claim(members)));
    }
    for (const outcome of [undefined, DECLINED]) {
      const left = await given.pending({
        transactionId: newTransactionIdOf(since + 9),
        client,
        ...(processor && { processor }),
      });
      await given.settled(await given.takeover(left, { isPending: true }), { ...(outcome && { outcome }) });
    }
    const range = { claimedFrom: since, claimedTo: since + 10 };
    return { open, pending: open.filter((_, index) => index % 2 === 0), range };
  }

  test('12: payments that are PROCESSING are the pending ones and the others, in order, in pages that read little too', async () => {
    const [client, processor] = ['key:waits', newProcessorName()];
    const { open, pending, range } = await givenPending(client, processor);
    for (const readLimit of [1, 2, 5, ALL]) {
      for (const limit of [1, 2, 5, 9, ALL]) {
        for (const asker of [client, undefined]) {
          for (const filter of [{}, { processor }]) {
            const of = async (selection: Partial<Selection>) => {
              const asked = { ...range, ...filter, client: asker, limit, ...selection };
              return keysOf((await newestPages(asked, undefined, readLimit)).flat());
            };
            const what = `${readLimit} rows, ${limit} each`;
            expect(await of({ state: 'PROCESSING' }), what).toEqual(newestFirst(open));
            expect(await of({ isPending: true }), what).toEqual(newestFirst(pending));
            expect(await of({ state: 'PROCESSING', isPending: true }), what).toEqual(newestFirst(pending));
          }
        }
      }
    }
  });

  test('12: a search among pending payments reads no more than it may, and finds none in other states', async () => {
    const client = 'key:searches';
    const { pending, range } = await givenPending(client);
    for (const asker of [client, undefined]) {
      const of = async (selection: Partial<Selection>) =>
        keysOf(await newest({ ...range, client: asker, ...selection }));
      for (const state of ['COMPLETED', 'DECLINED', 'CANCELLED'] as const) {
        expect(await of({ state, isPending: true })).toEqual([]);
      }
      expect(await of({ isPending: false })).toHaveLength(11);
      expect(await of({ isPending: true, processor: 'none' })).toEqual([]);
      const [first] = pending as [Claim];
      expect(await of({ isPending: true, find: { transactionId: first.transactionId } })).toEqual([first.key]);
      expect(await of({ isPending: true, find: { keyDigits: first.key.replaceAll('-', '') } })).toEqual([first.key]);
    }
    for (const selection of [{ isPending: true }, { state: 'PROCESSING' as const }]) {
      const asked = { ...range, ...selection, processor: 'none', limit: 2 };
      const pages = await newestPages(asked, undefined, 1);
      expect(pages.flat()).toEqual([]);
      expect(pages.length).toBeGreaterThanOrEqual(pending.length);
    }
  });

  test('12: a record says until when its payment is pending, who ends it, and how the processor names it', async () => {
    const untilMs = Math.floor(clock.now()) + 60_000;
    const left = await given.pending({}, { pendingUntilMs: untilMs, processorId: 'ch_1' });
    const open = { state: 'PROCESSING', pendingUntil: untilMs, processorId: 'ch_1' };
    expect(await history.find(left.key)).toMatchObject({ ...open, ending: undefined, executions: 1 });
    const begun = await given.beginEnding(left, { scope: 'attempt' });
    expect(await history.find(left.key)).toMatchObject({ ...open, ending: 'attempt', executions: 2 });
    if (begun) await given.settled(begun, { outcome: DECLINED });
    const declined = { ...DECLINED, pendingUntil: undefined, ending: 'attempt', processorId: 'ch_1' };
    expect(await history.find(left.key)).toMatchObject(declined);
  });

  test('10: a reference selects its attempts, of all clients or of one, and no other text, in pages and with other filters', async () => {
    const text = newReference();
    const since = newTime();
    const at = (ms: number, attempt: number, client?: string) => ({
      ...turn(text, attempt, client === undefined ? {} : { client }),
      transactionId: newTransactionIdOf(since + ms),
    });
    const claims = [
      await given.declined(at(3, 1, 'key:shop')),
      await given.declined(at(1, 1)),
      await given.claim(at(2, 2, 'key:shop')),
    ];
    const closed = await given.cancelled(at(4, 2));
    for (const other of [text.toUpperCase(), text.slice(0, -1), `${text}0`]) await given.claim(turn(other));
    const [first, alone, second] = keysOf(claims);
    const all = [closed.key, first, second, alone];
    for (const limit of [1, 2, 3, 4]) {
      for (const readLimit of [1, ALL]) {
        const pages = await newestPages({ reference: text, limit }, undefined, readLimit);
        expect(keysOf(pages.flat())).toEqual(all);
        expect(pages).toHaveLength(Math.ceil(4 / limit));
      }
    }
    const selected = async (selection: Partial<Selection>) => keysOf(await newest({ reference: text, ...selection }));
    expect(await selected({ client: 'key:shop' })).toEqual([first, second]);
    expect(await selected({ client: 'key:sho' })).toEqual([]);
    expect(await selected({ state: 'DECLINED' })).toEqual([first, alone]);
    expect(await selected({ claimedFrom: since + 2, claimedTo: since + 4 })).toEqual([first, second]);
    expect(await selected({ processor: 'test' })).toEqual([first, second, alone]);
    expect(await selected({ find: { keyDigits: (second ?? '').replaceAll('-', '').slice(0, 20) } })).toEqual([second]);
    expect(await selected({ find: { transactionId: claims[1]?.transactionId ?? '' } })).toEqual([alone]);
  });

  test('10: the newest attempt is that with the highest number that has a row, in any state, of that client alone', async () => {
    const [text, client] = [newReference(), 'key:shop'];
    const newestOf = async (asker?: string) => history.newestAttempt(text, asker);
    expect(await newestOf()).toBeUndefined();
    await given.claim(turn(text, 1));
    expect(await newestOf()).toMatchObject({ attempt: 1, state: 'PROCESSING', client: undefined, reference: text });
    expect(await newestOf(client)).toBeUndefined();
    const at = (attempt: number) => turn(text, attempt, { client });
    for (let attempt = 1; attempt <= 11; attempt += 1) await given.declined(at(attempt));
    // By its number, and not by its text.
    expect(await newestOf(client)).toEqual(await history.find(at(11).key));
    const { key } = await given.cancelled(at(12));
    expect(await newestOf(client)).toMatchObject({ key, attempt: 12, state: 'CANCELLED', client });
    expect(await newestOf()).toMatchObject({ attempt: 1 });
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
    // A page of another period that goes on before this one.
    const { next: after } = await history.settled({ from: first, to: third, after: undefined, limit: 1 });
    const later = { from: third, to: third + 1, after, limit: 4 };
    expect(keysOf((await history.settled(later)).payments)).toEqual([keys[2]]);
    expect(await history.countSettled(later)).toMatchObject({ completed: 1, declined: 0 });
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
    const closed = await given.cancelled();
    await pass(1);
    const to = clock.now();
    await pass(1);
    await given.settled(claims[0] as Claim);
    const shown = (await settledPages(from, to)).flat();
    expect(shown).toHaveLength(31);
    // It ended nothing, so it is shown and not counted.
    expect(shown.at(-1)).toEqual(await history.find(closed.key));
    for (const limit of [1, 7, 31, 32]) {
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
      expect(pages).toBe(Math.floor(31 / limit) + 1);
    }
    expect(await history.countSettled({ from: 0, to: 1, after: undefined, limit: 1 })).toEqual({
      ...{ completed: 0, declined: 0, next: undefined },
    });
    await expect(history.countSettled({ from: 0, to: 1, after: 'x', limit: 1 })).rejects.toThrow(RangeError);
  });
}
