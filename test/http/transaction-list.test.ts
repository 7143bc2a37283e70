import { describe, expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  deleteTransaction,
  draft,
  type Filter,
  givenTransaction,
  idsOf,
  listTag,
  listTransactions,
  newAccount,
  postTransaction,
  quoted,
  STATUSES,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const EMPTY_TAG = 'cfcd208495d565ef66e7dff9f98764da'; // md5 of the text 0: no ids, and a count of none.

describeDeployments('the list of transactions', (deployment) => {
  const shared = shareService(deployment);

  describe('while there are none', () => {
    it('is an empty array with the tag of an empty list, filtered or not', async () => {
      for (const filter of [{}, { from: 'A' }, { to: 'B' }, { from: 'A', to: 'B' }]) {
        const list = await listTransactions(shared.url, filter);
        expect(list.status).toBe(200);
        expect(list.text).toBe('[]');
        expect(tagOf(list)).toBe(EMPTY_TAG);
      }
    });

    it('is a representation like any other: its tag and the star match it', async () => {
      for (const form of [EMPTY_TAG, quoted(EMPTY_TAG), '*']) {
        expectNotModified(await listTransactions(shared.url, {}, { 'If-None-Match': form }), EMPTY_TAG, 'no-store');
      }
    });
  });

  it('holds whole transactions as they were created, in the order of their ids', async () => {
    const account = newAccount();
    const created: Transaction[] = [];
    for (const status of STATUSES) created.push(await givenTransaction(shared.url, { fromAccount: account, status }));

    const list = await listTransactions(shared.url, { from: account });
    expect(list.status).toBe(200);
    expect(list.headers['content-type']).toMatch(/^application\/json\b/);
    expect(list.headers['cache-control']).toBe('no-store');
    expect(list.text).toBe(JSON.stringify(created));
    expect(tagOf(list)).toBe(listTag(created.map((transaction) => transaction.transactionId)));
  });

  describe('filters', () => {
    it('by sender, by receiver, by both, and not at all', async () => {
      const [x, y] = [newAccount(), newAccount()];
      const xy = await givenId({ fromAccount: x, toAccount: y });
      const yx = await givenId({ fromAccount: y, toAccount: x });
      const xz = await givenId({ fromAccount: x, toAccount: 'Z' });
      const zy = await givenId({ fromAccount: 'Z', toAccount: y });

      await expectListed({ from: x }, [xy, xz]);
      await expectListed({ to: y }, [xy, zy]);
      await expectListed({ from: x, to: y }, [xy]);
      await expectListed({ from: y, to: x }, [yx]);
      await expectListed({ from: y, to: y }, []);
      await expectListed({ from: x, to: '' }, [xy, xz]);
      await expectListed({ from: '', to: y }, [xy, zy]);

      const everything = idsOf(await listTransactions(shared.url));
      expect(everything).toEqual(expect.arrayContaining([xy, yx, xz, zy]));
      await expectListed({ from: '', to: '' }, everything);
    });

    it.each([
      ['white space', 'pad', ' pad', 'pad '],
      ['case', 'straße', 'Straße', 'STRASSE'],
      ['Unicode composition', 'caf\u00e9', 'cafe\u0301', 'cafe'],
      ['signs with a meaning in addresses', 'a&b=c', 'a b', 'a+b', 'a%20b', 'a/b?c#d'],
      ['signs with a meaning in SQL', "o'brien", 'o%brien', 'o_brien', '%', '_', "' OR ''='"],
      ['astral characters', '\u{1f600}', '\u{1f601}', '\ufffd'],
    ])('tell accounts apart that differ in %s', async (_what, ...accounts) => {
      const toAccount = newAccount();
      const ids: number[] = [];
      for (const fromAccount of accounts) ids.push(await givenId({ fromAccount, toAccount }));

      for (const [n, from] of accounts.entries()) await expectListed({ from, to: toAccount }, [ids[n] as number]);
    });

    it.each(['%00', 'x'.repeat(1000), 'a%0Ab', '__proto__'])(
      'find nothing for %s, which no account equals',
      async (from) => {
        const list = await ask(`${shared.url}/api/transactions?from=${from}`);
        expect(list.status).toBe(200);
        expect(list.text).toBe('[]');
        expect(tagOf(list)).toBe(EMPTY_TAG);
      },
    );

    it('find nothing for an account that is followed by a NUL', async () => {
      const account = newAccount();
      await givenId({ fromAccount: account });
      expect((await ask(`${shared.url}/api/transactions?from=${account}%00`)).text).toBe('[]');
    });

    it('ignore query parameters that they do not know', async () => {
      const account = newAccount();
      const id = await givenId({ fromAccount: account });
      const answer = await ask(`${shared.url}/api/transactions?page=2&from=${account}&status=FAILED&to=&limit=0&x`);
      expect(idsOf(answer)).toEqual([id]);
    });
  });

  describe('has a tag', () => {
    it('that a status change leaves alone, and a create and a delete change', async () => {
      const account = newAccount();
      const first = await givenId({ fromAccount: account });
      const tagOfOne = await listedTag(account);

      await changeStatus(shared.url, first, 'FLAGGED');
      expect(await listedTag(account)).toBe(tagOfOne);

      const second = await givenId({ fromAccount: account });
      expect(await listedTag(account)).toBe(listTag([first, second]));
      await deleteTransaction(shared.url, first);
      expect(await listedTag(account)).toBe(listTag([second]));
      await deleteTransaction(shared.url, second);
      expect(await listedTag(account)).toBe(EMPTY_TAG);
    });

    it('that never answers 304 after a create or delete was acknowledged', async () => {
      const account = newAccount();
      await givenId({ fromAccount: account });
      for (let round = 0; round < 50; round++) {
        const before = await listedTag(account);
        const condition = { 'If-None-Match': quoted(before) };
        const id = await givenId({ fromAccount: account });
        expect((await listTransactions(shared.url, { from: account }, condition)).status).toBe(200);
        expect((await listTransactions(shared.url, {}, condition)).status).toBe(200);
        await deleteTransaction(shared.url, id);
        expectNotModified(await listTransactions(shared.url, { from: account }, condition), before, 'no-store');
      }
    });

    it.each(MATCHING_FORMS)('that %s in If-None-Match names: 304', async (_name, make) => {
      for (const filter of await givenFilters()) {
        const tag = tagOf(await listTransactions(shared.url, filter));
        const condition = { 'If-None-Match': make(tag) };
        expectNotModified(await listTransactions(shared.url, filter, condition), tag, 'no-store');
        expectNotModified(await listTransactions(shared.url, filter, condition, 'HEAD'), tag, 'no-store');
      }
    });

    it.each(OTHER_FORMS)('that %s in If-None-Match does not name: the whole list', async (_name, make) => {
      for (const filter of await givenFilters()) {
        const plain = await listTransactions(shared.url, filter);
        const answer = await listTransactions(shared.url, filter, { 'If-None-Match': make(tagOf(plain)) });
        expect(answer.status).toBe(200);
        expect(answer.text).toBe(plain.text);
        expect(answer.headers.etag).toBe(plain.headers.etag);
      }
    });

    it('that If-Match must name, else 412', async () => {
      for (const filter of await givenFilters()) {
        const plain = await listTransactions(shared.url, filter);
        const tag = tagOf(plain);
        const met = { 'If-Match': quoted(tag) };
        expect((await listTransactions(shared.url, filter, met)).text).toBe(plain.text);
        const both = { ...met, 'If-None-Match': quoted(tag) };
        expectNotModified(await listTransactions(shared.url, filter, both), tag, 'no-store');
        for (const form of [quoted(EMPTY_TAG), `W/${quoted(tag)}`]) {
          const missed = { 'If-Match': form, 'If-None-Match': quoted(tag) };
          expectError(await listTransactions(shared.url, filter, missed), 412);
          expect((await listTransactions(shared.url, filter, missed, 'HEAD')).status).toBe(412);
        }
      }
    });

    it('that a create may be made to depend on', async () => {
      const fromAccount = newAccount();
      const tag = tagOf(await listTransactions(shared.url));
      const create = (headers: Record<string, string>) => postTransaction(shared.url, draft({ fromAccount }), headers);
      expectError(await create({ 'If-None-Match': '*' }), 412);
      expectError(await create({ 'If-None-Match': quoted(tag) }), 412);
      expectError(await create({ 'If-Match': '"x"' }), 412);
      await expectListed({ from: fromAccount }, []);
      expect((await create({ 'If-Match': quoted(tag), 'If-None-Match': '"x"' })).status).toBe(201);
      expectError(await create({ 'If-Match': quoted(tag) }), 412);
      expect((await create({ 'If-Match': '*' })).status).toBe(201);
    });

    it('that belongs to one filter only', async () => {
      const [from, to] = [newAccount(), newAccount()];
      await givenId({ fromAccount: from, toAccount: to });
      await givenId({ fromAccount: from });
      const condition = { 'If-None-Match': quoted(await listedTag(from)) };

      expect((await listTransactions(shared.url, { from, to }, condition)).status).toBe(200);
      expect((await listTransactions(shared.url, {}, condition)).status).toBe(200);
    });
  });

  it('answers HEAD as GET, without the body', async () => {
    const account = newAccount();
    await givenId({ fromAccount: account });
    for (const filter of [{}, { from: account }]) {
      const get = await listTransactions(shared.url, filter);
      const head = await listTransactions(shared.url, filter, {}, 'HEAD');
      expect(head.status).toBe(200);
      expect(head.text).toBe('');
      for (const name of ['etag', 'cache-control', 'content-type']) expect(head.headers[name]).toBe(get.headers[name]);
    }
  });

  async function givenId(members: Record<string, unknown>): Promise<number> {
    return (await givenTransaction(shared.url, members)).transactionId;
  }

  /** The filtered list and the whole one: a service may well keep their tags in different ways. */
  async function givenFilters(): Promise<Filter[]> {
    const account = newAccount();
    await givenId({ fromAccount: account });
    return [{}, { from: account }];
  }

  async function listedTag(account: string): Promise<string> {
    return tagOf(await listTransactions(shared.url, { from: account }));
  }

  async function expectListed(filter: Filter, ids: number[]): Promise<void> {
    const list = await listTransactions(shared.url, filter);
    expect(list.status).toBe(200);
    expect(idsOf(list)).toEqual(ids);
    expect(tagOf(list)).toBe(listTag(ids));
  }
});
