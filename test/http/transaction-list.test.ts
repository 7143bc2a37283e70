import { describe, expect, it } from 'vitest';
import { expectNotModified, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { requestText, sendAndVanish } from '../../testkit/client/raw-http.js';
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
} from '../../testkit/client/transactions.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const EMPTY_TAG = 'cfcd208495d565ef66e7dff9f98764da'; // md5 of the text 0: no ids, and a count of none.
const OTHER_TAG = '"0123456789abcdef0123456789abcdef"';
const MANY = 1000;
/** Different lists read while they change: enough for a torn snapshot to show, and few enough for a slow machine. */
const DISTINCT_LISTS = 40;

/** Accounts with signs that mean something in addresses and in SQL; the contract of lists has every likeness. */
const ALIKE = ['a', ' a', 'A', 'a&b=c', 'a b', 'a+b', 'a%20b', 'a/b?c#d', "o'b", '%', '_', "' OR ''='", '\u{1f600}'];

describeDeployments('the list of transactions', (deployment) => {
  const shared = shareService(deployment);
  const list = (filter: Filter = {}, headers = {}, method = 'GET') =>
    listTransactions(shared.url, filter, headers, method);
  const listedTag = async (filter: Filter) => tagOf(await list(filter));
  const givenId = async (members: Record<string, unknown>) =>
    (await givenTransaction(shared.url, members)).transactionId;

  /** The filtered list and the whole one, with their tags: a service may well keep them in different ways. */
  async function givenLists() {
    const from = newAccount();
    await givenId({ fromAccount: from });
    const lists = [{}, { from }].map(async (filter: Filter) => ({ filter, plain: await list(filter) }));
    return (await Promise.all(lists)).map(({ filter, plain }) => ({ filter, plain, tag: tagOf(plain) }));
  }

  async function expectListed(filter: Filter, ids: number[]): Promise<void> {
    const answer = await list(filter);
    expect(idsOf(answer)).toEqual(ids);
    expectConsistent(answer);
  }

  it('is an empty array with the tag of an empty list while there are none, filtered or not', async () => {
    for (const filter of [{}, { from: 'A' }, { to: 'B' }, { from: 'A', to: 'B' }]) {
      const answer = await list(filter);
      expect([answer.status, answer.text, tagOf(answer)]).toEqual([200, '[]', EMPTY_TAG]);
    }
    for (const form of [EMPTY_TAG, quoted(EMPTY_TAG), '*']) {
      expectNotModified(await list({}, { 'If-None-Match': form }), EMPTY_TAG, 'no-store');
    }
  });

  it('holds whole transactions as they were created, in the order of their ids; HEAD is GET without the body', async () => {
    const from = newAccount();
    const created = [];
    for (const status of STATUSES) created.push(await givenTransaction(shared.url, { fromAccount: from, status }));
    const answer = await list({ from });
    expect(answer).toMatchObject({
      status: 200,
      text: JSON.stringify(created),
      headers: { 'cache-control': 'no-store' },
    });
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    expectConsistent(answer);
    for (const filter of [{}, { from }]) {
      const [get, head] = [await list(filter), await list(filter, {}, 'HEAD')];
      expect([head.status, head.text]).toEqual([200, '']);
      for (const name of ['etag', 'cache-control', 'content-type']) expect(head.headers[name]).toBe(get.headers[name]);
    }
  });

  /** Rule T6. */
  describe('is filtered', () => {
    it('by sender, by receiver, by both, and not at all', async () => {
      const [x, y] = [newAccount(), newAccount()];
      const xy = await givenId({ fromAccount: x, toAccount: y });
      const yx = await givenId({ fromAccount: y, toAccount: x });
      const xz = await givenId({ fromAccount: x, toAccount: 'Z' });
      const zy = await givenId({ fromAccount: 'Z', toAccount: y });
      await expectListed({ from: x }, [xy, xz]);
      await expectListed({ from: x, to: y }, [xy]);
      await expectListed({ from: y, to: y }, []);
      await expectListed({ from: x, to: '' }, [xy, xz]);
      await expectListed({ from: '', to: y }, [xy, zy]);
      const everything = idsOf(await list());
      expect(everything).toEqual(expect.arrayContaining([xy, yx, xz, zy]));
      await expectListed({ from: '', to: '' }, everything);
      const ignored = `from=${x}&to=&page=2&status=FAILED&limit=0&x`;
      expect(idsOf(await ask(`${shared.url}/api/transactions?${ignored}`))).toEqual([xy, xz]);
    });

    it('by exactly the account, however alike others are', async () => {
      const toAccount = newAccount();
      const ids = await Promise.all(ALIKE.map((fromAccount) => givenId({ fromAccount, toAccount })));
      for (const [n, from] of ALIKE.entries()) await expectListed({ from, to: toAccount }, [ids[n] as number]);
      for (const from of ['%00', 'x'.repeat(1000), 'a%0Ab', '__proto__', `${toAccount}%00`]) {
        const answer = await ask(`${shared.url}/api/transactions?from=${from}&to=${toAccount}`);
        expect([answer.status, answer.text, tagOf(answer)]).toEqual([200, '[]', EMPTY_TAG]);
      }
    });
  });

  describe('has a tag', () => {
    it('that only creates and deletes change: no 304 after one was acknowledged, nor for another filter', async () => {
      const from = newAccount();
      const kept = await givenId({ fromAccount: from });
      for (let round = 0; round < 20; round++) {
        const before = await listedTag({ from });
        const condition = { 'If-None-Match': quoted(before) };
        const id = await givenId({ fromAccount: from });
        for (const filter of [{ from }, {}]) expect((await list(filter, condition)).status).toBe(200);
        await deleteTransaction(shared.url, id);
        await changeStatus(shared.url, kept, round % 2 === 0 ? 'FLAGGED' : 'PENDING');
        expectNotModified(await list({ from }, condition), before, 'no-store');
        expect((await list({ from, to: 'C' }, condition)).status).toBe(200);
      }
    });

    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a table of conditions and their answers, one loop for each kind.
    it('that If-None-Match names for a 304, in any form, and If-Match for a list, else 412', async () => {
      for (const { filter, plain, tag } of await givenLists()) {
        for (const form of [tag, quoted(tag), `W/${quoted(tag)}`, [OTHER_TAG, quoted(tag)], '*']) {
          for (const method of ['GET', 'HEAD']) {
            expectNotModified(await list(filter, { 'If-None-Match': form }, method), tag, 'no-store');
          }
        }
        const met = { 'If-Match': quoted(tag) };
        for (const headers of [met, { 'If-None-Match': OTHER_TAG }]) {
          const answer = await list(filter, headers);
          expect(answer).toMatchObject({ status: 200, text: plain.text, headers: { etag: quoted(tag) } });
        }
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
      for (const form of ['*', quoted(tag)]) expectError(await create({ 'If-None-Match': form }), 412);
      expectError(await create({ 'If-Match': '"x"' }), 412);
      await expectListed({ from: fromAccount }, []);
      expect((await create({ 'If-Match': quoted(tag), 'If-None-Match': '"x"' })).status).toBe(201);
      expectError(await create({ 'If-Match': quoted(tag) }), 412);
      expect((await create({ 'If-Match': '*' })).status).toBe(201);
    });
  });

  it('comes from one snapshot with its tag and holds what was acknowledged, while creates and deletes race', async () => {
    const account = newAccount();
    const [present, gone, distinct] = [new Set<number>(), new Set<number>(), new Set<string>()];
    const write = async () => {
      const id = await givenId({ fromAccount: account });
      if (id % 3 === 0) await changeStatus(shared.url, id, 'FLAGGED');
      if (id % 3 !== 1) await deleteTransaction(shared.url, id);
      (id % 3 === 1 ? present : gone).add(id);
    };
    const read = async (filter: Filter) => {
      const [mustHold, mustMiss] = [[...present], [...gone]];
      const listed = await list(filter);
      distinct.add(expectConsistent(listed));
      const ids = new Set(idsOf(listed));
      expect(mustHold.filter((id) => !ids.has(id))).toEqual([]);
      expect(mustMiss.filter((id) => ids.has(id))).toEqual([]);
      const again = await list(filter, { 'If-None-Match': quoted(tagOf(listed)) });
      if (again.status === 304) expect(tagOf(again)).toBe(tagOf(listed));
      else expectConsistent(again);
    };
    const filters = [{ from: account }, {}, { from: account, to: 'B' }];
    await alongside(8, write, async () => {
      while (distinct.size < DISTINCT_LISTS) await Promise.all(filters.map(read));
    });
  });

  it('of a thousand transactions is complete, in order and rightly tagged, also after deletes', async () => {
    const account = newAccount();
    const created = await inParallel(MANY, 48, () => givenId({ fromAccount: account }));
    const ids = created.sort((a, b) => a - b);
    for (const filter of [{ from: account }, { from: account, to: 'B' }]) {
      await expectListed(filter, ids);
      const condition = { 'If-None-Match': quoted(listTag(ids)) };
      expectNotModified(await list(filter, condition), listTag(ids), 'no-store');
    }

    const isRemoved = (_id: number, n: number) => n % 100 === 0;
    await Promise.all(ids.filter(isRemoved).map((id) => deleteTransaction(shared.url, id)));
    const rest = ids.filter((id, n) => !isRemoved(id, n));
    await expectListed({ from: account }, rest);

    // It costs the others nothing when its readers want no body or disconnect.
    const plain = await list();
    for (let n = 0; n < 20; n++) {
      const head = await list({}, {}, 'HEAD');
      expect([head.status, head.text, head.headers.etag]).toEqual([200, '', plain.headers.etag]);
    }
    const bytes = requestText('GET /api/transactions HTTP/1.1');
    await inParallel(40, 10, () => sendAndVanish(shared.service.port, bytes));
    expect((await list()).text).toBe(plain.text);
  });
});

/** A 200 whose ids rise under their own tag, which is returned. */
function expectConsistent(list: Answer): string {
  expect(list.status).toBe(200);
  const ids = idsOf(list);
  expect(tagOf(list)).toBe(listTag(ids));
  expect(ids.every((id, n) => n === 0 || id > (ids[n - 1] as number))).toBe(true);
  return tagOf(list);
}
