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
  const list = (filter: Filter = {}, headers = {}, method = 'GET') =>
    listTransactions(shared.url, filter, headers, method);
  const listedTag = async (filter: Filter) => tagOf(await list(filter));

  async function givenId(members: Record<string, unknown>): Promise<number> {
    return (await givenTransaction(shared.url, members)).transactionId;
  }

  /** The filtered list and the whole one, with their tags: a service may well keep them in different ways. */
  async function givenLists() {
    const from = newAccount();
    await givenId({ fromAccount: from });
    const lists = [{}, { from }].map(async (filter: Filter) => ({ filter, plain: await list(filter) }));
    return (await Promise.all(lists)).map(({ filter, plain }) => ({ filter, plain, tag: tagOf(plain) }));
  }

  async function expectListed(filter: Filter, ids: number[]): Promise<void> {
    const answer = await list(filter);
    expect(answer.status).toBe(200);
    expect(idsOf(answer)).toEqual(ids);
    expect(tagOf(answer)).toBe(listTag(ids));
  }

  it('is an empty array with the tag of an empty list while there are none, filtered or not', async () => {
    for (const filter of [{}, { from: 'A' }, { to: 'B' }, { from: 'A', to: 'B' }]) {
      const answer = await list(filter);
      expect([answer.status, answer.text]).toEqual([200, '[]']);
      expect(tagOf(answer)).toBe(EMPTY_TAG);
    }
    for (const form of [EMPTY_TAG, quoted(EMPTY_TAG), '*']) {
      expectNotModified(await list({}, { 'If-None-Match': form }), EMPTY_TAG, 'no-store');
    }
  });

  it('holds whole transactions as they were created, in the order of their ids; HEAD is GET without the body', async () => {
    const from = newAccount();
    const created: Transaction[] = [];
    for (const status of STATUSES) created.push(await givenTransaction(shared.url, { fromAccount: from, status }));
    const answer = await list({ from });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(answer.text).toBe(JSON.stringify(created));
    expect(tagOf(answer)).toBe(listTag(created.map((transaction) => transaction.transactionId)));
    for (const filter of [{}, { from }]) {
      const [get, head] = [await list(filter), await list(filter, {}, 'HEAD')];
      expect([head.status, head.text]).toEqual([200, '']);
      for (const name of ['etag', 'cache-control', 'content-type']) expect(head.headers[name]).toBe(get.headers[name]);
    }
  });

  /** Decision T6. */
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
      const everything = idsOf(await list());
      expect(everything).toEqual(expect.arrayContaining([xy, yx, xz, zy]));
      await expectListed({ from: '', to: '' }, everything);
      const ignored = `from=${x}&to=&page=2&status=FAILED&limit=0&x`;
      expect(idsOf(await ask(`${shared.url}/api/transactions?${ignored}`))).toEqual([xy, xz]);
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

    it('find nothing for what no account equals', async () => {
      const account = newAccount();
      await givenId({ fromAccount: account });
      for (const from of ['%00', 'x'.repeat(1000), 'a%0Ab', '__proto__', `${account}%00`]) {
        const answer = await ask(`${shared.url}/api/transactions?from=${from}`);
        expect([answer.status, answer.text, tagOf(answer)]).toEqual([200, '[]', EMPTY_TAG]);
      }
    });
  });

  describe('has a tag', () => {
    it('that a status change leaves alone, and a create and a delete change', async () => {
      const from = newAccount();
      const first = await givenId({ fromAccount: from });
      const tagOfOne = await listedTag({ from });
      await changeStatus(shared.url, first, 'FLAGGED');
      expect(await listedTag({ from })).toBe(tagOfOne);
      const second = await givenId({ fromAccount: from });
      expect(await listedTag({ from })).toBe(listTag([first, second]));
      await deleteTransaction(shared.url, first);
      expect(await listedTag({ from })).toBe(listTag([second]));
      await deleteTransaction(shared.url, second);
      expect(await listedTag({ from })).toBe(EMPTY_TAG);
    });

    it('that never gives 304 after a create or delete was acknowledged, nor for another filter', async () => {
      const from = newAccount();
      await givenId({ fromAccount: from });
      for (let round = 0; round < 50; round++) {
        const before = await listedTag({ from });
        const condition = { 'If-None-Match': quoted(before) };
        const id = await givenId({ fromAccount: from });
        for (const filter of [{ from }, {}]) expect((await list(filter, condition)).status).toBe(200);
        await deleteTransaction(shared.url, id);
        expectNotModified(await list({ from }, condition), before, 'no-store');
        expect((await list({ from, to: 'C' }, condition)).status).toBe(200);
      }
    });

    it.each(MATCHING_FORMS)('that gives 304 when If-None-Match names it by %s', async (_name, make) => {
      for (const { filter, tag } of await givenLists()) {
        for (const method of ['GET', 'HEAD']) {
          expectNotModified(await list(filter, { 'If-None-Match': make(tag) }, method), tag, 'no-store');
        }
      }
    });

    it.each(OTHER_FORMS)('that gives the whole list when If-None-Match has %s', async (_name, make) => {
      for (const { filter, plain, tag } of await givenLists()) {
        const answer = await list(filter, { 'If-None-Match': make(tag) });
        expect([answer.status, answer.text]).toEqual([200, plain.text]);
        expect(answer.headers.etag).toBe(plain.headers.etag);
      }
    });

    it('that If-Match must name, else 412', async () => {
      for (const { filter, plain, tag } of await givenLists()) {
        const met = { 'If-Match': quoted(tag) };
        expect((await list(filter, met)).text).toBe(plain.text);
        expectNotModified(await list(filter, { ...met, 'If-None-Match': quoted(tag) }), tag, 'no-store');
        for (const form of [quoted(EMPTY_TAG), `W/${quoted(tag)}`]) {
          const missed = { 'If-Match': form, 'If-None-Match': quoted(tag) };
          expectError(await list(filter, missed), 412);
          expect((await list(filter, missed, 'HEAD')).status).toBe(412);
        }
      }
    });

    it('that a create may be made to depend on', async () => {
      const fromAccount = newAccount();
      const tag = await listedTag({});
      const create = (headers: Record<string, string>) => postTransaction(shared.url, draft({ fromAccount }), headers);
      expectError(await create({ 'If-None-Match': '*' }), 412);
      expectError(await create({ 'If-None-Match': quoted(tag) }), 412);
      expectError(await create({ 'If-Match': '"x"' }), 412);
      await expectListed({ from: fromAccount }, []);
      expect((await create({ 'If-Match': quoted(tag), 'If-None-Match': '"x"' })).status).toBe(201);
      expectError(await create({ 'If-Match': quoted(tag) }), 412);
      expect((await create({ 'If-Match': '*' })).status).toBe(201);
    });
  });
});
